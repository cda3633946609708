"""Rules of the optimizer and related settings."""

import tomllib
from typing import get_args

import pytest

from onetrainer import ROOT
from onetrainer.config.optimizers.adam import AdamW8bit
from onetrainer.config.optimizers.optimizer import Optimizer, install_command, missing_package
from onetrainer.errors import Fix
from onetrainer.presets.presets import resolve
from onetrainer.rules.optimizer import problems
from tests.each import each

SECTIONS = get_args(get_args(Optimizer)[0])
ADAPTIVE = [section().kind for section in SECTIONS if section.is_adaptive]
ONE_RATE = [section().kind for section in SECTIONS if section.has_one_rate]
SCHEDULE_FREE = [section().kind for section in SECTIONS if section.is_schedule_free]
CLIPPING_ITSELF = [section().kind for section in SECTIONS if section.clips_itself]


def found(optimizer, **document):
    """Return the problems of a config by path, with clipping off by default."""
    training = {"gradient_clipping": 0.0} | document.pop("training", {})
    kind = {"kind": optimizer} if isinstance(optimizer, str) else optimizer
    config = resolve({"optimizer": kind, "training": training, **document}, source="test")
    return {problem.path: problem for problem in problems(config)}


WARM = {"schedule": {"warmup_steps": 100}}


@each("section", SECTIONS, ids=lambda section: section.__name__)
def test_defaults_with_a_constant_schedule_are_fine(section):
    warm = WARM if section().kind == "adafactor" else {}
    assert found(section().kind, **warm) == {}


@each("kind", CLIPPING_ITSELF)
def test_gradient_clipping_is_a_warning_where_steps_are_bounded_already(kind):
    reported = found(kind, training={"gradient_clipping": 1.0}, **WARM)[
        "training.gradient_clipping"
    ]
    assert reported.severity == "warning"
    assert reported.fix == Fix("training.gradient_clipping", 0.0)


def test_adafactor_without_warm_up_is_a_warning_with_its_fix():
    reported = found("adafactor")["schedule.warmup_steps"]
    assert (reported.severity, reported.fix) == ("warning", Fix("schedule.warmup_steps", 100))
    assert found("adafactor", schedule={"warmup_fraction": 0.1}) == {}
    assert found("adafactor", training={"steps": 50}) == {}


def test_a_relative_step_has_no_learning_rate():
    with pytest.raises(Exception, match=r"optimizer\.lr.*no such setting"):
        found({"kind": "adafactor_relative", "lr": 1e-4})


@each(
    ("place", "document"),
    [
        ("method.unet.lr", {"method": {"kind": "lora", "unet": {"lr": 1e-4}}}),
        (
            "method.layers.0.lr",
            {"method": {"kind": "full", "layers": [{"pattern": "attn", "lr": 1e-5}]}},
        ),
        ("method.plus_ratio", {"method": {"kind": "lora", "plus_ratio": 16}}),
        ("embeddings.tokens.0.lr", {"embeddings": {"tokens": [{"token": "x", "lr": 1e-3}]}}),
    ],
)
@each("kind", ["adafactor_relative", *ONE_RATE])
def test_rates_of_components_are_refused_where_they_are_ignored(kind, place, document):
    assert found(kind, **document)[place].severity == "error"
    assert place not in found("adamw", **document)


def test_rates_of_what_does_not_train_do_not_matter():
    idle = {"unet": {"lr": 1e-4, "train": False}, "text_encoder": {"train": True}}
    assert found("prodigy", method={"kind": "lora"} | idle, embeddings={"lr": 1e-3}) == {}


@each(
    ("schedule", "place"),
    [
        ({"kind": "cosine"}, "schedule.kind"),
        ({"warmup_steps": 10}, "schedule.warmup_steps"),
        ({"warmup_fraction": 0.1}, "schedule.warmup_fraction"),
    ],
)
def test_a_relative_step_has_no_schedule(schedule, place):
    reported = found("adafactor_relative", schedule=schedule)[place]
    assert reported.severity == "error"
    assert reported.fix or reported.choices


@each("kind", SCHEDULE_FREE)
def test_schedule_free_optimizers_want_no_schedule_and_their_average_is_reported_once(kind):
    reported = found(kind, schedule={"kind": "cosine"}, ema={"use": True})
    assert reported["schedule.kind"].fix == Fix("schedule.kind", "constant")
    assert reported["schedule.kind"].severity == "warning"
    assert "ema.use" not in reported  # which rules_schedule refuses
    assert found(kind, schedule={"warmup_steps": 100}) == {}


@each("kind", ADAPTIVE)
def test_a_rate_far_from_1_is_a_warning_where_the_rate_is_found(kind):
    reported = found({"kind": kind, "lr": 1e-4})["optimizer.lr"]
    assert (reported.severity, reported.fix) == ("warning", Fix("optimizer.lr", 1.0))
    assert found({"kind": kind, "lr": 0.5}) == {}


def test_a_component_may_have_a_multiplier_where_rates_are_found_for_each():
    method = {"kind": "lora", "text_encoder": {"train": True, "lr": 0.5}}
    assert found("prodigy_schedulefree", method=method) == {}
    method["text_encoder"]["lr"] = 1e-5
    reported = found("prodigy_schedulefree", method=method)["method.text_encoder.lr"]
    assert reported.severity == "warning"


def test_prodigy_with_a_warm_up_wants_its_safeguard():
    reported = found("prodigy", **WARM)["optimizer.safeguard_warmup"]
    assert reported.fix == Fix("optimizer.safeguard_warmup", value=True)
    assert found({"kind": "prodigy", "safeguard_warmup": True}, **WARM) == {}


@each("section", SECTIONS, ids=lambda section: section.__name__)
def test_each_optimizer_has_a_rate_that_is_very_high_for_it(section):
    kind = section().kind
    if "lr" not in section.model_fields or section.is_adaptive or section.high_lr >= 10:
        return
    warm = WARM if kind == "adafactor" else {}
    assert found({"kind": kind, "lr": section.high_lr}, **warm) == {}
    reported = found({"kind": kind, "lr": section.high_lr * 1.1}, **warm)["optimizer.lr"]
    assert (reported.severity, reported.fix) == ("warning", None)


@each("section", SECTIONS, ids=lambda section: section.__name__)
def test_a_fused_backward_is_refused_with_what_needs_all_gradients(section):
    if not section.updates_independently:
        return
    reported = found(
        {"kind": section().kind, "fused_backward": True},
        training={"accumulation": 2, "gradient_clipping": 1.0},
    )
    for place in ("training.accumulation", "training.gradient_clipping"):
        assert reported[place].severity == "error"
        assert reported[place].choices


def test_a_fused_backward_refuses_gradient_clipping_that_is_only_unwise_elsewhere():
    section = {"kind": "adafactor", "fused_backward": True}
    reported = found(section, training={"gradient_clipping": 1.0}, **WARM)
    assert [(path, problem.severity) for path, problem in reported.items()] == [
        ("training.gradient_clipping", "error")
    ]


def test_nesterov_needs_momentum():
    reported = found({"kind": "sgd", "nesterov": True, "momentum": 0.0})["optimizer.nesterov"]
    assert (reported.severity, reported.fix) == ("error", Fix("optimizer.nesterov", value=False))


class _Absent(AdamW8bit):
    """An optimizer of a package that does not exist."""

    target = "no_such_package.optim:AdamW"


def test_a_missing_package_is_a_problem_that_names_its_command():
    problem = missing_package(_Absent())
    assert problem is not None
    assert "no_such_package" in problem.what
    assert problem.remedy.endswith(install_command("bits"))
    assert missing_package(AdamW8bit()) is None


def test_every_extra_exists_and_its_pins_are_those_of_the_tests():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    for section in SECTIONS:
        package = section.target.partition(":")[0].partition(".")[0]
        if section.extra:
            assert set(extras[section.extra]) <= set(extras["test"])
        else:
            assert any(pin.startswith(f"{package}==") for pin in project["dependencies"])
