"""What lowers the peak: each fix holds what it says, and the cheapest come first."""

import pytest

from modules.forecast import fixes as all_fixes
from modules.forecast.fixes import (
    EIGHT_BIT_VARIANTS,
    add_fixes,
    apply_changes,
    candidates,
    combine,
)
from modules.forecast.forecast import Planner, Target
from onetrainer.config.train import TrainConfig
from onetrainer.messages.memory import SAFE_FRACTION, fix_lines
from onetrainer.presets.presets import resolve, with_overrides
from onetrainer.rules.rules import check_rules
from onetrainer.run.events import Forecast
from tests.each import each
from tests.forecasts import forecast

PROMPT = {"prompt": "a", "width": 64, "height": 64}
FULL = {
    "method": {"kind": "full", "weights": "fp32"},
    "ema": {"use": True},
    "hardware": {"offload_device": "same"},
    "sampling": {"prompts": [PROMPT]},
}


@pytest.fixture(scope="module")
def small(base):
    return {
        "model": {"path": base},
        "data": {"resolution": 192, "folder": "there"},
        "training": {"batch_size": 2},
    }


def config(*documents):
    made = {}
    for document in documents:
        made |= document
    return TrainConfig.model_validate(made)


def paths(asked, *, on_card=True):
    return [path for change in candidates(asked, on_card=on_card) for path in change.changes]


def test_every_candidate_is_a_config_without_new_errors_and_the_cheapest_come_first(small):
    asked = config(small, FULL)
    known = {problem.what for problem in check_rules(asked)}
    for change in candidates(asked, on_card=True):
        changed = apply_changes(asked, change.changes)
        errors = [one for one in check_rules(changed) if one.severity == "error"]
        assert [one.what for one in errors if one.what not in known] == []
        assert changed != asked
    order = [
        "hardware.offload_device",
        "ema.device",
        "hardware.vae_tiling",
        "method.weights",
        "optimizer.fused_backward",
        "hardware.gradient_checkpointing",
        "training.batch_size",
        "hardware.offload_activations",
        "hardware.offload_layers",
        "data.resolution",
    ]
    found = paths(asked)
    places = [found.index(path) for path in order]
    assert places == sorted(places)


def test_what_is_of_no_use_is_no_candidate(small):
    plain = set(paths(config(small)))
    assert plain.isdisjoint({"ema.device", "hardware.vae_tiling", "data.cache_latents"})
    assert plain.isdisjoint({"optimizer.kind", "optimizer.fused_backward", "method.weights"})
    on_processor = set(paths(config(small, FULL), on_card=False))
    assert on_processor.isdisjoint({"hardware.offload_layers", "hardware.offload_activations"})
    assert on_processor.isdisjoint({"hardware.offload_device", "ema.device"})
    accumulated = config(small, FULL, {"training": {"accumulation": 2}})
    assert not {"optimizer.fused_backward", "training.batch_size"} & set(paths(accumulated))
    quantized = config(small, {"hardware": {"quantization": "int8", "offload_layers": 0.9}})
    assert set(paths(quantized)).isdisjoint({"hardware.quantization", "hardware.offload_layers"})


@each(("kind", "small_kind"), EIGHT_BIT_VARIANTS.items())
def test_every_optimizer_has_its_like_in_8_bits(small, kind, small_kind):
    asked = config(small, FULL, {"optimizer": {"kind": kind, "lr": 3e-6}})
    kept = apply_changes(asked, {"optimizer.kind": small_kind}).optimizer.model_dump()
    before = asked.optimizer.model_dump()
    assert kept["lr"] == 3e-6
    assert {name for name in kept if kept[name] != before[name]} == {"kind"}
    assert apply_changes(asked, {"training.steps": 0}) is None


@pytest.mark.parametrize("kind", ["adam", "adamw8bit"])
def test_adafactor_is_offered_for_a_whole_model(small, kind):
    rates = {"kind": kind, "lr": 3e-6, "weight_decay": 0.02, "beta1": 0.8, "eps": 1e-6}
    asked = config(small, FULL, {"optimizer": rates})
    (change,) = (
        one
        for one in candidates(asked, on_card=True)
        if one.changes.get("optimizer.kind") == "adafactor"
    )
    changed = apply_changes(asked, change.changes).optimizer
    assert (changed.kind, changed.lr, changed.weight_decay) == ("adafactor", 3e-6, 0.02)
    assert changed.beta1 is None
    # A terminal keeps what a person has set; it reports all that the forecast was made of.
    (lines, *_) = [fix_lines([{**vars(change), "peak_bytes": 1}], 2)]
    typed = [part for part in lines[1].split() if part != "--set"]
    there = resolve(with_overrides(asked.model_dump(mode="json"), typed), source="").optimizer
    assert there == changed


def test_of_the_same_setting_the_last_one_counts_together(small):
    changes = candidates(config(small), on_card=True)
    fixes = {next(iter(change.changes)): change for change in changes}
    selective, block = (
        change for change in changes if "hardware.gradient_checkpointing" in change.changes
    )
    both = combine([selective, fixes["training.batch_size"], block])
    assert both.changes == {
        "hardware.gradient_checkpointing": "block",
        "training.batch_size": 1,
        "training.accumulation": 2,
    }
    assert both.message == f"all of these: {fixes['training.batch_size'].message}; {block.message}"
    assert selective.cost not in both.cost
    assert both.phases.split() == ["validation"]


class Scales:
    """A planner that knows at once what a run takes: so much less for each setting that saves."""

    SAVED = {"selective": 100, "block": 200}  # noqa: RUF012 - a constant of this test

    def __init__(self, available):
        self.target = Target("cuda", available=round(available / SAFE_FRACTION) + 1)
        self.asked = []

    def forecast(self, config, known=None, affected_phases=None):
        hardware = config.hardware
        self.asked.append(config)
        peak = 1000 - self.SAVED.get(hardware.gradient_checkpointing, 0)
        peak -= 150 * (config.training.batch_size == 1)
        peak -= round(300 * hardware.offload_layers)
        return Forecast({"training": {"unet": peak}}, "training", peak, self.target.available)


def searched(small, available):
    """The fixes where so much is sure to fit, and the planner that was asked."""
    plans, asked = Scales(available), config(small)
    return add_fixes(plans, asked, plans.forecast(asked)).fixes, plans


def test_the_search_ends_where_enough_fit_and_else_combines_and_names_the_nearest(small):
    fixes, plans = searched(small, 850)
    assert [fix["peak_bytes"] for fix in fixes] == [900, 850, 800]
    assert all(config.hardware.offload_layers == 0 for config in plans.asked)
    (first, *alone), _ = searched(small, 600)
    assert first["message"].startswith("all of these: ")
    # 1000 - 100 (selective) - 150 (a batch of one), - 200 in place of the 100, - 150 (half).
    assert first["peak_bytes"] == 500
    assert first["changes"]["hardware.offload_layers"] == 0.5
    assert min(fix["peak_bytes"] for fix in alone) > 600
    (first, *others), _ = searched(small, 10)
    peaks = [fix["peak_bytes"] for fix in others]
    assert peaks == sorted(peaks)
    assert first["peak_bytes"] == 1000 - 200 - 150 - 270


def test_the_peak_of_a_fix_is_that_of_the_changed_config(small, monkeypatch):
    def first_ones(config, *, on_card):
        return candidates(config, on_card=on_card)[:2]

    monkeypatch.setattr(all_fixes, "candidates", first_ones)  # each takes its time
    asked = config(small, {"training": {"batch_size": 16}})  # else caching takes most
    peak = forecast(asked).peak_bytes
    with Planner(Target("cuda", available=round(0.5 * peak))) as plans:
        planned = add_fixes(plans, asked, plans.forecast(asked))
    assert planned.peak_bytes == peak
    assert len(planned.fixes) == 2
    for fix in planned.fixes:
        changed = forecast(apply_changes(asked, fix["changes"]))
        assert fix["peak_bytes"] == changed.peak_bytes < peak
        assert fix["message"]
        assert fix["cost"]
