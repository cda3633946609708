"""Learning rate schedules against closed forms and other libraries."""

import math

import torch
from diffusers import optimization as of_diffusers
from transformers import optimization as of_transformers

from onetrainer.config.run.schedule import Point, Points
from onetrainer.config.train import TrainConfig, Training
from onetrainer.presets.presets import resolve
from onetrainer.rules.schedule import problems
from onetrainer.schedules.learning_rate import lr_multiplier, warmup_steps
from tests.close import FLOAT64, near
from tests.each import each

STEPS = 40


def schedule(kind, **fields):
    return TrainConfig.model_validate({"schedule": {"kind": kind, **fields}}).schedule


def curve(kind, steps=STEPS, **fields):
    made = schedule(kind, **fields)
    return [lr_multiplier(made, step=step, steps=steps) for step in range(steps)]


def library_curve(make, steps=STEPS, **settings):
    """Return each step's rate by a library's scheduler, which steps after the optimizer."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer, **settings)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@each("warmup", [0, 7])
@each("library", [of_transformers, of_diffusers], ids=["transformers", "d"])
@each(
    ("kind", "fields", "maker", "settings"),
    [
        ("constant", {}, "get_constant_schedule_with_warmup", {}),
        ("linear", {}, "get_linear_schedule_with_warmup", {}),
        ("cosine", {}, "get_cosine_schedule_with_warmup", {"num_cycles": 0.5}),
        ("cosine_waves", {"cycles": 2.5}, "get_cosine_schedule_with_warmup", {"num_cycles": 2.5}),
        (
            "cosine_restarts",
            {"cycles": 3},
            "get_cosine_with_hard_restarts_schedule_with_warmup",
            {"num_cycles": 3},
        ),
        (
            "polynomial",
            {"power": 1.7, "min_factor": 0.01},
            "get_polynomial_decay_schedule_with_warmup",
            {"power": 1.7, "lr_end": 0.01},
        ),
    ],
)
def test_curve_is_that_of_transformers_and_diffusers(
    kind, fields, maker, settings, library, warmup
):
    if kind != "constant":
        settings = settings | {"num_training_steps": STEPS}
    expected = library_curve(getattr(library, maker), num_warmup_steps=warmup, **settings)
    assert curve(kind, warmup_steps=warmup, **fields) == near(expected, eps=FLOAT64)


@each(("timescale", "warmup"), [(0, 0), (0, 7), (15, 7), (15, 0)])
def test_inverse_square_root_is_that_of_transformers(timescale, warmup):
    expected = library_curve(
        of_transformers.get_inverse_sqrt_schedule,
        num_warmup_steps=warmup,
        timescale=timescale or None,
    )
    made = curve("inverse_sqrt", timescale=timescale, warmup_steps=warmup)
    assert made == near(expected, eps=FLOAT64)


def test_min_factor_is_that_of_transformers():
    expected = library_curve(
        of_transformers.get_cosine_with_min_lr_schedule_with_warmup,
        num_warmup_steps=7,
        num_training_steps=STEPS,
        min_lr_rate=0.2,
    )
    made = curve("cosine", warmup_steps=7, min_factor=0.2)
    assert made == near(expected, eps=FLOAT64)


def test_warm_up_rises_in_a_line_from_zero():
    assert curve("constant", 10, warmup_steps=4)[:6] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_warm_up_by_a_fraction_is_that_by_its_steps():
    assert warmup_steps(schedule("linear", warmup_fraction=0.25), steps=STEPS) == 10
    assert curve("linear", warmup_fraction=0.25) == curve("linear", warmup_steps=10)


@each("bend", [0.0, 0.5, 0.9])
def test_rex_is_the_papers_at_a_bend_of_a_half(bend):
    made = curve("rex", 10, bend=bend, min_factor=0.1)
    for step, factor in enumerate(made):
        left = 1 - step / 10
        # arXiv:2107.04197, section 3: (1 - t/T) / (1/2 + 1/2 (1 - t/T))
        expected = left if bend == 0 else left / ((1 - bend) + bend * left)
        assert factor == near(0.1 + 0.9 * expected, eps=FLOAT64)


FALLING = ("linear", "cosine", "cosine_restarts", "cosine_waves", "rex", "polynomial")


@each("kind", FALLING)
def test_first_step_after_the_warm_up_is_full_and_the_step_after_the_last_would_be_lowest(kind):
    made = schedule(kind, warmup_steps=5, min_factor=0.3)
    assert lr_multiplier(made, step=5, steps=STEPS) == 1.0
    if kind == "cosine_restarts":  # there the next cycle would begin
        last = 0.3 + 0.7 * (1 + math.cos(math.pi * (1 - 2 / 35))) / 2
        assert lr_multiplier(made, step=39, steps=STEPS) == near(last, eps=FLOAT64)
    else:
        assert lr_multiplier(made, step=STEPS, steps=STEPS) == near(0.3, eps=FLOAT64)


def test_the_factor_of_a_batch_is_its_images_or_their_square_root():
    images = {"batch_size": 8, "accumulation": 2}
    for scaling, factor in {"off": 1.0, "sqrt": 4.0, "linear": 16.0}.items():
        assert Training(lr_scaling=scaling, **images).lr_factor == factor
        assert Training(lr_scaling=scaling).lr_factor == 1.0


@each("cycles", [3, 7, 49])  # 1 / 49 × 49 is less than 1 in floating point
def test_restarts_come_in_the_step_they_belong_to(cycles):
    for length in (2, 3, 10, 33):
        made = curve("cosine_restarts", cycles * length, cycles=cycles)
        assert made[::length] == [1.0] * cycles


def test_points_are_joined_by_straight_lines_and_constant_at_the_ends():
    points = [(0.2, 0.5), (0.4, 1.5), (0.8, 0.3)]
    made = curve("points", 10, points=[{"at": at, "factor": factor} for at, factor in points])
    assert made == near([0.5, 0.5, 0.5, 1.0, 1.5, 1.2, 0.9, 0.6, 0.3, 0.3], eps=FLOAT64)


def test_two_points_at_one_place_are_a_jump():
    steps = Points(points=tuple(Point(at=at, factor=f) for at, f in [(0.5, 1.0), (0.5, 0.1)]))
    assert [lr_multiplier(steps, step=step, steps=4) for step in range(4)] == [1, 1, 0.1, 0.1]


@each("kind", ["constant", *FALLING, "inverse_sqrt"])
def test_a_run_that_is_all_warm_up_divides_by_nothing(kind):
    assert curve(kind, 3, warmup_steps=3) == near([0, 1 / 3, 2 / 3], eps=FLOAT64)


@each("kind", ["constant", *FALLING, "inverse_sqrt", "points"])
@each("steps", [1, 2, 3, 1000])
def test_every_step_of_every_run_has_a_rate_between_nothing_and_all(kind, steps):
    made = curve(kind, steps)
    assert all(0 <= factor <= 1 for factor in made)
    assert made[0] == 1


@each(
    ("fields", "place"),
    [
        ({"warmup_steps": 50}, "schedule.warmup_steps"),
        ({"warmup_fraction": 0.995}, "schedule.warmup_fraction"),
        ({"warmup_steps": 3, "warmup_fraction": 0.1}, "schedule.warmup_fraction"),
        ({"kind": "cosine_restarts", "cycles": 26}, "schedule.cycles"),
        ({"kind": "cosine_waves", "cycles": 20, "warmup_steps": 11}, "schedule.cycles"),
        ({"kind": "points", "points": [{"factor": 0}]}, "schedule.points"),
        # Above 0 only at the end, where no step of the run is.
        ({"kind": "points", "points": [{"factor": 0}, {"at": 1, "factor": 0}, {"at": 1}]},
         "schedule.points"),
        # Between the steps 25 and 26.
        ({"kind": "points", "points": [{"at": 0.501, "factor": 0}, {"at": 0.51},
                                       {"at": 0.519, "factor": 0}]}, "schedule.points"),
        ({"kind": "points", "points": [{"at": 0.5}, {"at": 0.4}]}, "schedule.points.1.at"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_an_error(fields, place):
    (found,) = problems(resolve({"training": {"steps": 50}, "schedule": fields}, source=""))
    assert (found.path, found.severity) == (place, "error")
    assert found.remedy


def test_a_curve_without_points_is_reported():
    (found,) = problems(resolve({"schedule": {"kind": "points"}}, source=""))
    assert (found.path, found.severity) == ("schedule.points", "warning")
    assert curve("points") == [1.0] * STEPS


@each(
    "fields",
    [
        {"warmup_steps": 49},
        {"warmup_fraction": 0.9},
        {"kind": "cosine_restarts", "cycles": 25},
        {"kind": "points", "points": [{"at": 0.5}, {"at": 0.5, "factor": 0.1}]},
        {"kind": "points", "points": [{"factor": 0}, {"at": 1}]},
        {"kind": "points", "points": [{"factor": 0}, {"at": 0.97, "factor": 0}, {"at": 1}]},
    ],
)
def test_what_can_be_meant_is_none(fields):
    assert not list(problems(resolve({"training": {"steps": 50}, "schedule": fields}, source="")))
