"""Batches and rollouts of tiny models, what a step samples for them, and how far gradients are."""

import torch

from modules import seeds
from modules.interfaces import Batch, LatentMoments, Loss
from modules.objectives import inputs
from modules.sampling.rollout import Rollout
from tests import tiny

TIME_IDS = torch.tensor([[64.0, 64, 0, 0, 64, 64]])
SEED, STEP = 3, 7


def time_ids_of(count):
    """The size conditioning of images of 64 × 64."""
    return TIME_IDS.expand(count, -1)


def batch_of(family, positions=(0, 1, 2, 3), *, weight=0.25, **fields) -> Batch:
    """Some images of a step of at most four, with their encoded captions."""
    places = list(positions)
    mean, std = torch.randn(2, 4, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    captions = tuple(f"an image of {number}" for number in positions)
    with torch.no_grad():
        conditioning = family.encode_text(captions)
    given = {"captions": captions, "step_captions": captions, "conditioning": conditioning}
    return Batch(
        moments=LatentMoments(mean[places], std[places].abs()),
        time_ids=time_ids_of(len(places)),
        positions=tuple(positions),
        weight=weight,
        **(given | fields),
    )


def loss_of(objective, batch, *, seed=SEED, step=STEP, device=tiny.CPU) -> Loss:
    """The loss of a microbatch, drawn and computed at once."""
    return inputs.loss_of(objective, batch, seed=seed, step=step, device=device)


def generators(purpose, positions=(0, 1, 2, 3)):
    """The generators of a step for a purpose, by the images' positions."""
    return [seeds.generator(SEED, purpose, STEP, position) for position in positions]


def standard_noise(purpose, positions=(0, 1, 2, 3)):
    """The normal numbers of a step, (B, 4, 8, 8)."""
    made = [torch.randn(4, 8, 8, generator=each) for each in generators(purpose, positions)]
    return torch.stack(made)


def timesteps_of(positions=(0, 1, 2, 3)):
    """The timesteps of a step that samples them uniformly."""
    each = [torch.randint(0, 1000, (1,), generator=g) for g in generators("timestep", positions)]
    return torch.cat(each)


def rollout_of(family, **changes) -> Rollout:
    """Of three steps with guidance and noise, without checkpoints, on the CPU."""
    settings = {"steps": 3, "eta": 1.0, "guidance": 3.0, "checkpoint": False}
    devices = {"train_device": tiny.CPU, "offload_device": tiny.CPU}
    return Rollout(family, **(settings | devices | changes))


def some_weights(family):
    """A few of a UNet's weights, from its ends and its middle, which train from now on."""
    return [
        weight.requires_grad_()
        for path, weight in family.unet.named_parameters()
        if path.endswith(("to_q.weight", "conv_out.weight"))
    ]


def distance(found, expected):
    """Difference of gradients, as a fraction of their length."""
    total = torch.stack([each.norm() for each in expected]).norm()
    apart = [(one - other).norm() for one, other in zip(found, expected, strict=True)]
    return torch.stack(apart).norm() / total
