"""Explanation of an out-of-memory failure: what took the memory, and which setting to change."""

from collections.abc import Mapping, Sequence
from typing import Any

from modules.forecast.fixes import add_fixes
from modules.forecast.forecast import Planner, Target, target_of
from onetrainer.config.migrate import migrate
from onetrainer.config.train import TrainConfig
from onetrainer.json_file import read_json
from onetrainer.messages.memory import (
    fits,
    format_memory,
    largest_parts,
    phase_label,
    setting_value,
)
from onetrainer.presets.presets import resolve
from onetrainer.run.event_log import read_all
from onetrainer.run.events import Event, Failed, Phase, Progress
from onetrainer.run.run_folder import RunFolder

_FORECAST_PHASES: Mapping[str, tuple[str, ...]] = {
    "loading": ("caching",),
    "validating": ("validation",),
    "sampling": ("encoding", "sampling", "decoding"),
}
"""Phases of a forecast by the name of a run's phase, where they differ."""
_KIND = "device memory"
SAFE = "Everything up to the last checkpoint is safe."


def explain_failure(folder: RunFolder) -> Failed:
    """Explain a run's latest out-of-memory failure; raise any error on the way."""
    config = resolve(migrate(read_json(folder.config), source="", goes_on=True), source="")
    return explain_out_of_memory(config, phase_of(read_all(folder.events)))


def explain_out_of_memory(config: TrainConfig, phase: str, target: Target | None = None) -> Failed:
    """Return a failure event that explains a phase's memory.

    config: Of the run. phase: A phase of events or of forecasts. target: None for this computer
    with all of its memory.
    """
    target = target or target_of(config, is_all_free=True)
    with Planner(target) as plans:
        config = plans.resolve_checkpointing(config)
        known = plans.forecast(config)
        names = [name for name in _FORECAST_PHASES.get(phase, (phase,)) if name in known.phases]
        phase = max(names or [known.peak_phase], key=lambda name: sum(known.phases[name].values()))
        parts = known.phases[phase]
        needed = sum(parts.values())
        what = f"there is not enough memory for {phase_label(phase)}"
        expected = (
            f"It takes about {format_memory(needed)} ({largest_parts(parts)}), and there are"
            f" {format_memory(target.available)} in all"
        )
        if fits(needed, target.available):
            return Failed("program", what, expected, f"{_SHOULD_FIT} {SAFE}", _KIND)
        fixes = add_fixes(plans, config, known).fixes
    fix = _best(fixes, target.available)
    changes = dict(fix["changes"]) if fix else {}
    return Failed("program", what, expected, f"{_remedy(fix)} {SAFE}", _KIND, changes=changes)


def phase_of(events: Sequence[Event]) -> str:
    """Return the phase of a run at its last event."""
    phase = "loading"
    for event in events:
        match event:
            case Phase(name=name):
                phase = name
            case Progress():
                phase = "training"
    return phase


_SHOULD_FIT = "That should fit: close other programs that use the device, or lower the batch size."


def _best(fixes: Sequence[Mapping[str, Any]], available: int) -> Mapping[str, Any] | None:
    """Return the first fix that is enough, else the one with the lowest peak; None without any."""
    enough = [fix for fix in fixes if fits(int(fix["peak_bytes"]), available)]
    return next(iter(enough), min(fixes, key=lambda fix: int(fix["peak_bytes"]), default=None))


def _remedy(fix: Mapping[str, Any] | None) -> str:
    if fix is None:
        return "Lower the resolution, or use a device with more memory."
    changes = ", ".join(
        f"{path} to {setting_value(value)}" for path, value in fix["changes"].items()
    )
    return (
        f"Set {changes}: {fix['message']} ({fix['cost']}), which takes"
        f" {format_memory(int(fix['peak_bytes']))}."
    )
