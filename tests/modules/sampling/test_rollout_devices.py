"""Sampling with a gradient in half precision, and on a pretended GPU."""

import pytest
import torch

from modules.interfaces import Conditioning
from modules.sampling.rollout import Trajectory
from tests import pretend, tiny
from tests.batches import distance, rollout_of, time_ids_of

STEPS = 3


def last(*counts):
    """Courses whose last steps carry a gradient."""
    return [Trajectory(tuple(n >= STEPS - k for n in range(STEPS)), STEPS) for k in counts]


@pytest.mark.parametrize("guidance_gradient", [True, False])
def test_checkpoints_change_no_gradient_in_half_precision(guidance_gradient):
    family = tiny.family()
    family.unet.requires_grad_()
    weights = [family.unet.conv_out.weight, family.unet.conv_in.weight]
    inputs = {"conditioning": family.encode_text(["a", "b"]), "empty": family.encode_text([""])}
    gradients = []
    for checkpoint in (False, True):
        rollout = rollout_of(
            family, eta=0.0, guidance_gradient=guidance_gradient, checkpoint=checkpoint
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            latents = rollout.generate(
                torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0)),
                trajectories=last(1, 2),
                time_ids=time_ids_of(2),
                noise=lambda *_: torch.zeros(4, 8, 8),
                **inputs,
            )
            loss = rollout.decode(latents).square().sum()
        gradients.append(torch.autograd.grad(loss, weights))
    assert distance(*gradients) < 1e-2  # bfloat16 has 8 bits
    assert all(each.abs().sum() > 0 for each in gradients[0])


def test_on_a_gpu_nothing_is_waited_for_and_nothing_mixed():
    with pretend.accelerator() as gpu:
        device = torch.device("cuda")
        family = tiny.family(device=device)
        family.unet.conv_out.weight.requires_grad_()
        with torch.no_grad():
            texts = family.encode_text(["a", "b", ""])
        texts = Conditioning(texts.hidden.cpu())
        rollout = rollout_of(family, checkpoint=True, train_device=device)
        gpu.syncs.clear()
        latents = rollout.generate(
            torch.randn(2, 4, 8, 8),
            conditioning=Conditioning(texts.hidden[:2]),
            empty=Conditioning(texts.hidden[2:]),
            time_ids=time_ids_of(2),
            trajectories=last(1, 2),
            noise=lambda *_: torch.randn(4, 8, 8),
        )
        rollout.decode(latents).sum().backward()
        assert gpu.syncs == []
        assert pretend.device_of(latents).type == "cuda"
