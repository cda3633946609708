"""The grid that validation images are measured on, which depends on nothing else."""

import hashlib
from fractions import Fraction

import pytest
import torch

from modules import seeds
from modules.assembly.validation_set import grid_of
from modules.evaluation.validation import Grid, ValidationImages, measure
from modules.interfaces import Batch, LatentMoments
from modules.objectives.denoising import Denoising
from onetrainer.config.objectives.denoising import Denoising as Section
from onetrainer.errors import UserError
from onetrainer.metrics.messages import diverged
from onetrainer.presets.presets import resolve
from tests import tiny
from tests.each import each

SHAPE = torch.Size((4, 8, 8))
GRID = Grid(levels=3, noises=2, seed=7)


def batch(name, side=8):
    generator = torch.Generator().manual_seed(len(name))
    mean = torch.randn(1, 4, 8, side, generator=generator)
    return Batch(
        moments=LatentMoments(mean, torch.ones_like(mean)),
        captions=(name,),
        step_captions=(name,),
        conditioning=None,
        time_ids=torch.tensor([[64.0, 8.0 * side, 0.0, 0.0, 64.0, 8.0 * side]]),
        positions=(0,),
        weight=1.0,
    )


def images(*names):
    return ValidationImages(
        names=names,
        concepts=dict.fromkeys(names, ""),
        digest=" ".join(names),
        load=lambda place: batch(names[place], side=16 if names[place] == "wide" else 8),
    )


@pytest.fixture(scope="module")
def objective():
    return Denoising(tiny.family(), section=Section(), device=tiny.CPU)


def measured(made, objective, *, grid=GRID, at_once=4, before_each=lambda done: None, **reported):
    return measure(
        made,
        grid,
        objective=objective,
        autocast=lambda: torch.autocast("cpu", enabled=False),
        at_once=at_once,
        before_each=before_each,
        **reported,
    )


def probes(grid, at_once=100, name="a"):
    return list(grid.probes(name, SHAPE, at_once=at_once))


@each(("levels", "timesteps"), [(1, [500]), (4, [125, 375, 625, 875]), (100, range(5, 1000, 10))])
def test_levels_are_the_middles_of_equal_parts(levels, timesteps):
    (probe,) = probes(Grid(levels, 1, 0))
    assert [int(level * 1000) for level in probe.levels] == [*timesteps]


def test_every_cell_has_a_noise_of_its_own_from_the_validations_seed():
    (probe,) = probes(GRID)
    assert probe.levels == tuple(Fraction(part, 6) for part in (1, 1, 3, 3, 5, 5))
    digest = int.from_bytes(hashlib.sha256(b"a").digest()[:8], "big")
    cells = [(level, number) for level in range(3) for number in range(2)]
    for noise, cell in zip(probe.noise, cells, strict=True):
        generator = seeds.generator(7, "held-out-noise", digest, *cell)
        assert torch.equal(noise, torch.randn(SHAPE, generator=generator))
    others = [*probes(GRID, name="b")[0].noise, *probes(Grid(3, 2, 8))[0].noise]
    assert len({float(noise.sum()) for noise in (*probe.noise, *others)}) == 18


@each(("at_once", "sizes"), [(1, [1] * 6), (4, [4, 2]), (6, [6]), (9, [6])])
def test_no_more_cells_than_allowed_are_computed_at_once(at_once, sizes):
    made = probes(GRID, at_once)
    assert [len(probe.levels) for probe in made] == sizes
    assert torch.equal(torch.cat([probe.noise for probe in made]), probes(GRID)[0].noise)


def test_a_image_has_the_same_numbers_whichever_others_there_are(objective):
    alone = measured(images("a picture"), objective)
    among = measured(images("wide", "a picture", "another of them"), objective)
    assert among["a picture"] == alone["a picture"]  # to the last bit
    assert [len(losses) for losses in among.values()] == [6, 6, 6]


def test_torchs_own_generator_is_left_alone(objective):
    state = torch.get_rng_state()
    first = measured(images("a"), objective)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert measured(images("a"), objective) == first


def test_a_callback_before_each_image_may_end_the_measurement(objective):
    reported = []

    def before_each(done):
        reported.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(images("a", "b", "c"), objective, before_each=before_each)
    assert reported == [0, 1, 2]


@each(
    ("precision", "remedy"),
    [("fp16", "try bf16 or fp32"), ("bf16", "try fp32 "), ("fp32", "Check the base model")],
)
def test_no_number_before_training_is_the_base_models(precision, remedy):
    family = tiny.family()
    with torch.no_grad():
        family.unet.conv_out.bias.fill_(torch.nan)
    broken = Denoising(family, section=Section(), device=tiny.CPU)
    with pytest.raises(UserError, match="a: the validation loss is nan"):
        measured(images("a"), broken)
    with pytest.raises(
        UserError, match="a: the base model's validation loss is not a finite number"
    ) as raised:
        measured(images("a"), broken, is_untrained=True, precision=precision)
    assert remedy in raised.value.remedy


@each(
    ("precision", "end"),
    [("fp16", ", or train in bf16 or fp32."), ("bf16", ", or train in fp32."), ("fp32", "lr).")],
)
def test_only_a_finer_precision_is_advised_against_divergence(precision, end):
    assert diverged("the loss is nan", precision).remedy.endswith(end)


def grid_of_config(**sections):
    return grid_of(resolve(sections, source=""))


@each(
    "changes",
    [
        {"model": {"prediction": "v_prediction"}},
        {"model": {"clip_skip": 2}},
        {"model": {"zero_terminal_snr": "on"}},
        {"ema": {"use": True}},
        {"data": {"masks": "files"}},
    ],
)
def test_what_changes_the_level_of_the_loss_changes_the_grid(changes):
    assert grid_of_config(**changes) != grid_of_config()
    assert grid_of_config(optimizer={"lr": 1e-3}) == grid_of_config()


def test_the_weight_outside_masks_changes_the_grid_only_where_there_are_masks():
    weight = {"kind": "denoising", "mask": {"unmasked_weight": 0.3}}
    masked = {"masks": "files"}
    assert grid_of_config(objective=weight) == grid_of_config()
    assert grid_of_config(objective=weight, data=masked) != grid_of_config(data=masked)


def test_the_weights_of_a_vaes_own_loss_change_its_grid():
    vae = {"method": {"kind": "vae"}}
    other = {"objective": {"kind": "reconstruction", "l1": 0.5}}
    assert grid_of_config(**vae, **other) != grid_of_config(
        **vae, objective={"kind": "reconstruction"}
    )


def test_another_grid_or_another_set_has_another_digest():
    made = images("a", "b")
    digests = {
        grid.digest(each.digest)
        for grid in (GRID, Grid(3, 2, 8), Grid(2, 3, 7), Grid(3, 2, 7, "l1"))
        for each in (made, images("a"))
    }
    assert len(digests) == 8
