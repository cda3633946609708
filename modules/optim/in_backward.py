"""The step in backward: each weight moves as soon as its gradient is known, which is then freed.

Of all gradients only one is in memory at a time. Not with what needs all of them at once: the norm
of the whole gradient (clipping), several microbatches, fp16's search for overflows.
"""

import torch
from torch import Tensor, nn

from modules.optim.movement import Movement


def step_in_backward(movement: Movement) -> None:
    """Makes every backward pass move the weights.

    To be called after restoring. The hooks ask for their group at the time of the call: one that
    is remembered from before a restore would keep its old learning rate, and nothing would tell.
    """
    assert movement.moves_alone

    def move(weight: Tensor) -> None:
        assert isinstance(weight, nn.Parameter)
        with torch.no_grad():
            movement.move_one(weight)
        weight.grad = None

    for weight in movement.parameters:
        weight.register_post_accumulate_grad_hook(move)  # type: ignore[no-untyped-call] # torch's
