"""Amounts as steps, against counting a plan step by step."""

import random

import pytest

from onetrainer.config.base.amount import Amount, parse_amount
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.presets.presets import as_preset, resolve, with_overrides
from onetrainer.rewards.prompts import PromptPlan
from onetrainer.rules.rules import check_rules
from onetrainer.schedules.amounts import estimated, in_steps, is_due, lengths, steps_of


class Counted:
    """A plan of epochs of irregular lengths, whose steps take one to four images."""

    def __init__(self, seed):
        draws = random.Random(seed)
        self.epochs, self.images = [], [0]
        for epoch in range(60):
            for _ in range(draws.randint(1, 5)):
                self.epochs.append(epoch)
                self.images.append(self.images[-1] + draws.randint(1, 4))

    def epoch_of(self, step):
        return self.epochs[step]

    def images_before_step(self, step):
        return self.images[step]


def test_steps_and_intervals_are_those_that_counting_finds():
    for seed in range(20):
        plan = Counted(seed)
        for count in (1, 2, 3, 7, 12):
            boundary = next(step for step, epoch in enumerate(plan.epochs) if epoch == count)
            assert steps_of(Amount(count, "epochs"), plan) == boundary
            reached = next(step for step, images in enumerate(plan.images) if images >= count)
            assert steps_of(Amount(count, "images"), plan) == reached
            due = [step for step in range(1, 60) if is_due(Amount(count, "epochs"), step, plan)]
            starts = [s for s in range(1, 60) if plan.epochs[s] != plan.epochs[s - 1]]
            assert due == [step for step in starts if plan.epochs[step] % count == 0]
            often = [step for step in range(1, 60) if is_due(Amount(count, "images"), step, plan)]
            passed = [plan.images[step] // count for step in range(60)]
            assert often == [step for step in range(1, 60) if passed[step] > passed[step - 1]]
    assert [step for step in range(1, 8) if is_due(3, step, plan)] == [3, 6]
    assert not is_due(0, 4, plan)


def test_minutes_follow_from_the_time_of_a_step():
    for minutes, seconds, steps in ((30, 0.5, 3600), (0.5, 7.0, 4), (1, 100.0, 1), (0.001, 9, 1)):
        assert steps_of(Amount(minutes, "minutes"), None, seconds) == steps


def test_prompts_have_epochs_too():
    plan = PromptPlan(prompts=10, images_per_step=4, denoising_fraction=0.5)
    # Five steps of prompts and, with as many on images among them, nine or ten in all.
    assert steps_of(Amount(2, "epochs"), plan) == next(
        step for step in range(99) if (step - step // 2) * 4 >= 20
    )
    assert steps_of(Amount(21, "images"), plan) == 6


def test_texts_are_read_and_written_back():
    for text, amount in {
        "400 steps": 400,
        " 1 Step ": 1,
        "10 epochs": Amount(10, "epochs"),
        "1epoch": Amount(1, "epochs"),
        "5,000 images": Amount(5000, "images"),
        "5_000 image": Amount(5000, "images"),
        "ten epochs": None,
        "10 weeks": None,
        "1.5 epochs": None,
        "30 minutes": Amount(30, "minutes"),
        "0.5 min": Amount(0.5, "minutes"),
        "1.5h": Amount(90, "minutes"),
        "2 hours": Amount(120, "minutes"),
        "10": None,
        "-1 epochs": None,
    }.items():
        assert parse_amount(text) == amount
        if isinstance(amount, Amount):
            assert parse_amount(str(amount)) == amount
    config = resolve({"training": {"steps": "2 epochs"}}, source="")
    assert as_preset(config)["training"] == {"steps": "2 epochs"}
    assert TrainConfig.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(UserError, match='"0 epochs" is not allowed'):
        resolve({"training": {"steps": "0 epochs"}}, source="")
    for wrong in ("0 epochs", "10 weeks", "10000001 epochs", 1.5, True, "500"):
        with pytest.raises(UserError, match="whole number from 1 to 10,000,000, or an amount"):
            resolve({"training": {"steps": wrong}}, source="")
    never = resolve({"output": {"save_every": "0 epochs"}}, source="")
    assert never.output.save_every == 0


def test_every_length_of_a_config_is_converted_and_no_interval():
    amount, stop = "2 epochs", {"stop_after": "2 epochs"}
    config = resolve(
        {
            "training": {"steps": amount},
            "schedule": {"warmup_steps": amount},
            "method": {"unet": stop, "text_encoders": {"te1": stop}},
            "embeddings": {"tokens": [{"token": "<a>"} | stop]} | stop,
            "sampling": {"every": amount},
            "validation": {"every": amount},
            "output": {"save_every": amount},
        },
        source="",
    )  # fmt: skip
    assert len(lengths(config)) == 6
    assert len(lengths(resolve({"sampling": {"every": "9 minutes"}}, source=""))) == 1
    text = in_steps(config, lambda _: 77).model_dump_json()
    assert text.count(":77") == 6
    assert text.count(amount) == 3
    assert "epochs" not in estimated(config).model_dump_json()


def test_a_unit_of_validation_of_its_own_is_set_as_before():
    for given, overrides, expected in [
        ({}, ["validation.unit=epochs"], "100 epochs"),
        ({}, ["validation.unit=epochs", "validation.every=3"], "3 epochs"),
        ({"every": 1}, ["validation.unit=epochs"], "1 epoch"),
        ({"every": 0}, ["validation.unit=epochs"], 0),
        ({"every": 4}, ["validation.unit=steps"], 4),
    ]:
        document = with_overrides({"validation": given}, overrides)
        assert document["validation"].get("every") == expected


def test_rules_wait_for_lengths_that_are_not_known():
    base = {"model": {"path": "x"}, "data": {"folder": "x"}}
    for sections, path in [
        ({"training": {"steps": "2 epochs"}, "schedule": {"warmup_steps": 500}}, None),
        ({"schedule": {"warmup_steps": "2 epochs"}}, None),
        (
            {"training": {"steps": "2 epochs"}, "schedule": {"warmup_steps": "2 epochs"}},
            "schedule.warmup_steps",
        ),
        ({"method": {"unet": {"stop_after": "2 epochs"}}}, None),
        ({"training": {"steps": "9 images"}, "method": {"unet": {"stop_after": 4}}}, None),
    ]:
        found = [problem.path for problem in check_rules(resolve(base | sections, source=""))]
        assert found == ([path] if path else [])
