"""The training loop of both stages of the demo's base model."""

import logging
import math
from collections.abc import Callable, Sequence

import numpy
import torch
from PIL import Image
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

logger = logging.getLogger(__name__)


def optimize(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    *,
    steps: int,
    rate: float,
    after_step: Callable[[], object] = lambda: None,
) -> None:
    """Train the parameters that require gradients, in place.

    loss_of: Returns the loss of a step, counted from 0.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.99))
    scheduler = LambdaLR(optimizer, lambda step: one_cycle(step, steps))
    for step in range(steps):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        scheduler.step()
        after_step()
        if step % 50 == 0 or step == steps - 1:
            logger.info("%s: step %d of %d, loss %.4f", type(model).__name__, step, steps, loss)


def one_cycle(step: int, steps: int) -> float:
    """Return the factor of the peak rate: rises over 4 %, holds to 40 %, falls to 1 %."""
    done = step / steps
    if done < 0.04:
        return (step + 1) / (steps * 0.04 + 1)
    falling = max(0.0, (done - 0.4) / 0.6)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * falling))


def to_pixels(images: Sequence[Image.Image]) -> Tensor:
    """Return images of one size as pixels, (B, 3, H, W), float32 in [-1, 1]."""
    array = numpy.stack([numpy.asarray(image.convert("RGB")) for image in images])
    return torch.from_numpy(array).permute(0, 3, 1, 2).float() / 127.5 - 1  # channels last
