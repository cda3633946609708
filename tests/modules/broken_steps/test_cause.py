"""The cause of a broken step is where the first number that is not finite is found."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from modules.broken_steps.cause import Investigator, StepFacts
from modules.interfaces import Batch, Conditioning, LatentMoments

NAN, INF = float("nan"), float("inf")
NAMES = ["a.png", "b.png"]


def batch(*, latents=0.0, caption=0.0):
    """Two images; what is given is in the second one's latents or caption."""
    mean, hidden = torch.zeros(2, 4, 2, 2), torch.zeros(2, 3, 5)
    mean[1, 0, 1, 1], hidden[1, 2, 4] = latents, caption
    return Batch(
        moments=LatentMoments(mean, torch.ones_like(mean)),
        captions=("a", "b"),
        step_captions=("a", "b"),
        conditioning=Conditioning(hidden),
        time_ids=torch.zeros(2, 6),
        positions=(0, 1),
        weight=0.5,
    )


def investigator(**changes):
    base, adapter = nn.Linear(2, 2), nn.Linear(2, 2)
    base.adapter = adapter
    made = Investigator(
        components={"unet": base},
        trained={"up": adapter.weight, "down": adapter.bias},
        model="base.safetensors",
        precision="fp16",
        is_cached=True,
        names=lambda _: {"images": NAMES},
        batches=lambda _: iter([batch()]),
        timesteps=lambda _: [10, 20],
    )
    return replace(made, **changes)


def found(made, *, number=7, losses=(1.0, 1.0), norm=NAN, norms=(1.0, 1.0)):
    weights = made.trained.values()
    facts = StepFacts(number, losses, norm, list(zip(weights, norms, strict=True)))
    return made.investigate(facts)


def spoil(weight, value=NAN):
    with torch.no_grad():
        weight.view(-1)[1] = value


def test_a_weight_of_the_base_model_is_named_and_the_learning_rate_not_blamed():
    made = investigator()
    spoil(made.components["unet"].weight, INF)
    event, problem = found(made, losses=(NAN, NAN))
    assert event.cause == "model"
    assert problem.what == "step 7: the base model base.safetensors holds infinity in unet.weight"
    assert problem.remedy.startswith("Download base.safetensors again")


@pytest.mark.parametrize(("number", "cause"), [(1, "model"), (7, "weights")])
def test_a_trained_weight_is_the_models_in_the_first_step_only(number, cause):
    made = investigator()
    spoil(made.trained["up"])
    event, _ = found(made, number=number, losses=(NAN, NAN))
    assert event.cause == cause
    assert "NaN in up" in event.message


@pytest.mark.parametrize(
    ("is_cached", "precision", "remedy"),
    [
        (True, "fp16", "cache folder"),
        (False, "fp16", "VAE overflows in fp16"),
        (False, "fp32", "VAE"),
    ],
)
def test_an_image_whose_latents_are_broken_is_named(is_cached, precision, remedy):
    broken = investigator(
        batches=lambda _: iter([batch(latents=NAN)]), is_cached=is_cached, precision=precision
    )
    event, problem = found(broken, losses=(1.0, NAN))
    assert event.cause == "data"
    assert "the latents of b.png" in problem.what
    assert remedy in problem.remedy


def test_a_caption_whose_encoding_is_broken_is_named_by_its_image():
    event, problem = found(investigator(batches=lambda _: iter([batch(caption=INF)])))
    assert event.cause == "data"
    assert "the encoded caption of b.png" in problem.what


def test_the_image_whose_loss_is_broken_is_named_with_all_that_is_known():
    event, problem = found(investigator(), losses=(0.25, INF))
    assert (event.cause, event.losses, event.gradient_norm) == ("loss", [0.25, None], None)
    assert (event.images, event.timesteps) == (NAMES, [10, 20])
    assert problem.what == "step 7: the loss of b.png is inf"
    assert "bf16 or fp32" in problem.remedy


def test_the_weight_whose_gradient_broke_first_is_the_last_of_the_model():
    event, problem = found(investigator(precision="fp32"), norms=(NAN, INF))
    assert event.cause == "gradient"
    assert "the gradient of down, the first in the backward pass, and 1 more" in problem.what
    assert problem.remedy == "Lower the learning rate (optimizer.lr)."


def test_prompts_are_reported_apart_from_images_so_that_reports_can_leave_them_out():
    made = investigator(names=lambda _: {"prompts": ["a cat", "a dog"]}, batches=lambda _: iter(()))
    event, problem = found(made, losses=(0.25, INF))
    assert (event.images, event.prompts) == ([], ["a cat", "a dog"])
    assert problem.what == 'step 7: the loss of "a dog" is inf'
