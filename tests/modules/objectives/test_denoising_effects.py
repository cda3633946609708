"""Weights, noise, masks and prior images within the objective, each against its formula."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from modules.diffusion.schedule import at
from modules.methods.adapters.adapters import Adapters
from modules.objectives.denoising import Denoising
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.config.objectives.denoising import Denoising as Section
from tests import tiny
from tests.batches import (
    SEED,
    STEP,
    batch_of,
    distance,
    generators,
    loss_of,
    standard_noise,
    timesteps_of,
)
from tests.close import close


def section(**fields):
    return Section.model_validate_json(json.dumps(fields))


def loss(family, batch, **fields):
    with torch.no_grad():
        return loss_of(Denoising(family, section=section(**fields), device=tiny.CPU), batch)


def masks(positions=(0, 1, 2, 3)):
    generator = torch.Generator().manual_seed(9)
    return torch.rand(4, 1, 8, 8, generator=generator).round()[list(positions)]


@pytest.fixture(scope="module")
def family():
    return tiny.family()


@pytest.fixture(scope="module")
def velocity():
    return tiny.family("sd2", prediction="v_prediction", zero_terminal_snr=True)


@pytest.fixture(scope="module")
def trained():
    """A family with trained adapters, and the family as it was."""
    made = tiny.family()
    method = Adapters.attach(made, LoraSection(rank=2, alpha=2, targets="attn"), seed=1)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in method.state_dict().values():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return made, method, tiny.family()


WEIGHTINGS = ["min_snr", "debiased", "p2", "v_like", "noise_like"]
NOISES = [
    {"offset": 0.1, "offset_by_timestep": True, "perturbation": 0.1},
    {"pyramid_levels": 4, "pyramid_discount": 0.6, "input_perturbation": 0.1},
]


@pytest.mark.parametrize("which", ["family", "velocity"])
def test_weightings_change_the_value_and_not_the_loss_per_item(which, request):
    family = request.getfixturevalue(which)
    batch = batch_of(family)
    plain = loss(family, batch)
    for kind in WEIGHTINGS:
        weighed = loss(family, batch, weighting={"kind": kind})
        assert torch.equal(weighed.per_item, plain.per_item), kind
        assert weighed.value.isfinite(), kind
        is_trivial = kind == "noise_like" and family.process.prediction == "epsilon"
        assert torch.equal(weighed.value, plain.value) == is_trivial, kind


def test_min_snr_weighs_each_image_by_its_timestep(velocity):
    batch = batch_of(velocity)
    plain = loss(velocity, batch)
    alphas = velocity.process.levels.alphas_cumprod[timesteps_of()]
    ratio = alphas / (1 - alphas)
    expected = (plain.per_item * ratio.clamp(max=5) / (ratio + 1)).sum() * 0.25
    ours = loss(velocity, batch, weighting={"kind": "min_snr"})
    torch.testing.assert_close(ours.value, expected, rtol=1e-4, atol=0)


def test_nothing_is_infinite_at_the_last_timestep_of_zero_terminal_snr(velocity):
    last = {"kind": "uniform", "lowest": 0.999}
    mix = {"mse": 1, "mae": 1, "huber": 1, "log_cosh": 1}
    noise = {"offset": 0.1, "offset_by_timestep": True, "pyramid_levels": 3}
    effects = {"loss": mix, "noise": noise, "timesteps": last}
    for made in (velocity, tiny.family("sd15", zero_terminal_snr=True)):
        batch = batch_of(made, (0,))
        for kind in WEIGHTINGS:
            ours = loss(made, batch, weighting={"kind": kind}, **effects)
            assert ours.value.isfinite(), kind
            assert ours.per_item.isfinite().all(), kind


class _Recorder:
    """A family that notes what it is given, and predicts nothing but zeros."""

    def __init__(self, family):
        self.process, self.asked = family.process, []

    def predict(self, noisy, timesteps, conditioning, *, time_ids, masked=None):
        self.asked.append((noisy, timesteps))
        return torch.zeros_like(noisy)


@pytest.mark.parametrize("which", ["family", "velocity"])
def test_input_perturbation_is_in_what_is_seen_and_not_in_the_target(which, request):
    family = request.getfixturevalue(which)
    plain, moved = _Recorder(family), _Recorder(family)
    batch = batch_of(family)
    first = loss(plain, batch)
    second = loss(moved, batch, noise={"input_perturbation": 0.1})
    assert torch.equal(first.per_item, second.per_item)  # a prediction of 0: the target alone
    ((noisy, timesteps),), ((other, _),) = plain.asked, moved.asked
    extra = at(family.process.levels.noise, timesteps) * standard_noise("input-noise")
    close(other - noisy, 0.1 * extra)


def test_the_range_of_timesteps_is_what_the_model_sees(family):
    recorder, batch = _Recorder(family), batch_of(family)
    timesteps = {"kind": "uniform", "lowest": 0.4, "highest": 0.41}
    objective = Denoising(recorder, section=section(timesteps=timesteps), device=tiny.CPU)
    for step in range(30):
        loss_of(objective, batch, seed=SEED, step=step)
    seen = torch.cat([timesteps for _, timesteps in recorder.asked])
    assert set(seen.tolist()) == set(range(400, 410))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: "+".join(noise))
def test_a_step_is_the_same_however_it_is_cut(noise, family):
    effects = {
        "noise": noise,
        "loss": {"mse": 0.5, "huber": 1.0},
        "weighting": {"kind": "p2"},
        "timesteps": {"kind": "logit_normal", "shift": 2.0},
        "mask": {"unmasked_probability": 0.5, "prior_weight": 0.3, "normalize_area": True},
        "prior": {"kind": "own_prediction", "weight": 0.7},
    }
    is_prior = (False, True, True, False)
    whole = loss(family, batch_of(family, mask=masks(), is_prior=is_prior), **effects)
    parts = [
        loss(family, batch_of(family, p, mask=masks(p), is_prior=is_prior[p[0] : p[-1] + 1]),
             **effects)
        for p in ((0,), (1, 2), (3,))
    ]  # fmt: skip
    per_item = torch.cat([part.per_item for part in parts])
    close(whole.per_item, per_item)
    close(whole.value, sum(part.value for part in parts))


def test_masks_leave_out_what_they_leave_out(family):
    batch = batch_of(family)
    plain = loss(family, batch)
    everything = replace(batch, mask=torch.ones(4, 1, 8, 8))
    assert torch.equal(loss(family, everything).per_item, plain.per_item)
    nothing = replace(batch, mask=torch.zeros(4, 1, 8, 8))
    tenth = loss(family, nothing, mask={"unmasked_weight": 0.1})
    close(tenth.per_item, 0.1 * plain.per_item)
    evened = loss(family, nothing, mask={"unmasked_weight": 0.1, "normalize_area": True})
    close(evened.per_item, plain.per_item)
    halves = masks()
    inside, outside = (
        loss(family, replace(batch, mask=mask), mask={"unmasked_weight": 0.0}).per_item
        for mask in (halves, 1 - halves)
    )
    close(inside + outside, plain.per_item)


def test_some_images_are_shown_without_their_mask(family):
    batch = replace(batch_of(family), mask=torch.zeros(4, 1, 8, 8))
    plain = loss(family, replace(batch, mask=None)).per_item
    settings = {"unmasked_weight": 0.0, "unmasked_probability": 0.5}
    chances = [
        float(torch.rand((), generator=generator, dtype=torch.double))
        for generator in generators("unmasked")
    ]
    shown = torch.tensor([chance < 0.5 for chance in chances])
    assert shown.any()
    assert not shown.all()
    ours = loss(family, batch, mask=settings).per_item
    close(ours, plain * shown)


def predictions(trained, batch):
    """The base model's own and the trained one's, of what is shown for a batch."""
    recorder = _Recorder(trained[2])
    loss(recorder, batch)
    ((noisy, timesteps),) = recorder.asked
    reported = {"time_ids": batch.time_ids}
    with torch.no_grad():
        return [f.predict(noisy, timesteps, batch.conditioning, **reported) for f in trained[::-2]]


def beside_base(trained, batch, **fields):
    """The loss where the base model's own predictions can be had."""
    family, method, _ = trained
    made = section(**fields)
    objective = Denoising(family, section=made, device=tiny.CPU, base_model=method.base_model)
    with torch.no_grad():
        return loss_of(objective, batch, seed=SEED, step=STEP)


@pytest.mark.parametrize("is_cached", [True, False])
def test_outside_the_mask_the_base_models_prediction_is_kept(trained, is_cached):
    batch = replace(batch_of(trained[2]), mask=masks())
    own, now = predictions(trained, batch)
    inside, outside = masks(), 1 - masks()
    expected = ((now - standard_noise("noise")) ** 2 * (inside + 0.2 * outside)).mean(dim=(1, 2, 3))
    expected = expected + (3 * outside * (now - own) ** 2).mean(dim=(1, 2, 3))
    shown = batch if is_cached else replace(batch, conditioning=None)
    ours = beside_base(trained, shown, mask={"unmasked_weight": 0.2, "prior_weight": 3.0})
    close(ours.per_item, expected)


def test_anchored_priors_are_compared_with_the_base_models_prediction(trained):
    """All of them, or an image whose concept says so, whichever other priors there are."""
    plain = batch_of(trained[2])
    own, now = predictions(trained, plain)
    anchored = ((now - own) ** 2).mean(dim=(1, 2, 3))
    without = loss(trained[0], plain).per_item
    every, one = (True, False, False, True), (False, True, False, False)
    half = {"prior": {"kind": "own_prediction", "weight": 0.5}}
    others = {"is_prior": (True, True, False, False), "own_prediction": one}
    for fields, settings, places, weight in (
        ({"is_prior": every}, half, torch.tensor(every), 0.5),
        (others, {}, torch.tensor(one), 1.0),
    ):
        ours = beside_base(trained, replace(plain, **fields), **settings)
        expected = torch.where(places, anchored, without)
        close(ours.per_item, expected)
        value = torch.where(places, weight * anchored, without).sum() * 0.25
        close(ours.value, value)


def test_class_images_only_have_their_weight(family):
    batch = replace(batch_of(family), is_prior=(False, True, False, False))
    plain = loss(family, replace(batch, is_prior=()))
    ours = loss(family, batch, prior={"kind": "class_images", "weight": 0.25})
    assert torch.equal(ours.per_item, plain.per_item)
    expected = (plain.per_item * torch.tensor([1, 0.25, 1, 1])).sum() * 0.25
    close(ours.value, expected)


def test_loss_weights_multiply_and_are_not_reported_as_losses(family):
    weights, is_prior = (2.0, 1.0, 0.0, 0.5), (True, False, False, False)
    batch = replace(batch_of(family), loss_weights=weights, is_prior=is_prior)
    plain = loss(family, replace(batch, loss_weights=(), is_prior=()))
    ours = loss(family, batch, prior={"kind": "class_images", "weight": 0.25})
    assert torch.equal(ours.per_item, plain.per_item)
    mask_weights = torch.tensor([2.0 * 0.25, 1.0, 0.0, 0.5])
    close(ours.value, (plain.per_item * mask_weights).sum() * 0.25)


def test_an_inpainting_model_is_shown_what_the_batch_says():
    family = tiny.family("sd15-inpainting")
    generator = torch.Generator().manual_seed(4)
    shown = torch.randn(4, 5, 8, 8, generator=generator)
    batch = replace(batch_of(family), masked=shown)
    found = loss(family, batch).per_item
    whole = loss(family, replace(batch, masked=None)).per_item
    for row in range(2):
        others = shown.clone()
        others[torch.arange(4) != row] = 0.0
        alone = loss(family, replace(batch, masked=others)).per_item
        close(alone[row], found[row])
        assert distance([whole[row]], [alone[row]]) > 1e-4


def test_the_model_is_computed_twice_only_where_it_is_asked_for(family):
    asked = {"prior": {"kind": "own_prediction"}, "mask": {"prior_weight": 1.0}}
    batch = batch_of(family)
    cases = [
        (batch, [4]),
        (replace(batch, is_prior=(False,) * 4), [4]),
        (replace(batch, is_prior=(False, True, False, True)), [2, 4]),
        (replace(batch, mask=torch.ones(4, 1, 8, 8)), [4]),
        (replace(batch, mask=masks()), [4, 4]),
    ]
    for given, expected in cases:
        recorder = _Recorder(family)
        loss(recorder, given, **asked)
        assert [len(noisy) for noisy, _ in recorder.asked] == expected


def test_training_goes_on_with_its_own_weights_after_the_base_prediction():
    """Autocast must not hand the training forward casts of the weights of before."""
    family = tiny.family()
    family.unet.requires_grad_(True)
    weight = family.unet.conv_in.weight

    @contextmanager
    def base_model():
        now = weight.detach().clone()
        with torch.no_grad():
            weight.zero_()
            yield
            weight.copy_(now)

    own = section(prior={"kind": "own_prediction"})
    objective = Denoising(family, section=own, device=tiny.CPU, base_model=base_model)
    batch = batch_of(family)
    losses = []
    for is_prior in ((), (False, False, False, True)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = loss_of(objective, replace(batch, is_prior=is_prior), seed=SEED, step=STEP)
        losses.append(made.per_item[:3])
    assert torch.equal(*losses)
    made.value.backward()
    assert float(weight.grad.abs().max()) > 0


FEW = ("sd2", "sdxl-inpainting")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in FEW else pytest.mark.long) for n in tiny.FAMILIES],
)
def test_every_family_takes_every_effect(name):
    family = tiny.family(name)
    batch = batch_of(family, mask=masks(), is_prior=(True, False, True, False))
    ours = loss(
        family,
        batch,
        loss={"mse": 1, "mae": 1, "huber": 1, "log_cosh": 1},
        weighting={"kind": "debiased"},
        timesteps={"kind": "beta"},
        noise={"offset": 0.05, "pyramid_levels": 2, "perturbation": 0.1, "input_perturbation": 0.1},
        mask={"prior_weight": 0.5},
        prior={"kind": "own_prediction"},
    )
    assert ours.value.isfinite()
    assert ours.per_item.shape == (4,)
