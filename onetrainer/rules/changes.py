"""What changed settings do to a run that goes on from a checkpoint, and which cannot change."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from onetrainer.config.base.amount import Amount, Steps, parse_amount
from onetrainer.config.fields import setting_at
from onetrainer.config.migrate import migrate
from onetrainer.config.problems import format_value
from onetrainer.config.run.schedule import CustomSchedule
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, ProblemsError, UserError, some_of
from onetrainer.json_file import Document, read_json
from onetrainer.presets.differences import Difference, differences
from onetrainer.presets.presets import resolve
from onetrainer.run.fork import state_at
from onetrainer.run.run_folder import RunFolder
from onetrainer.schedules.amounts import in_steps
from onetrainer.schedules.learning_rate import lr_multiplier

# Names and shapes of the trained weights follow from these.
_FIXED = (
    *("model.family", "method.kind", "method.rank", "method.block_size", "method.factor"),
    *("method.decompose_both", "method.full_matrix", "method.norms", "method.targets"),
    *("method.unet.train", "method.unet.rank", "method.text_encoders.*.train"),
    *("method.text_encoders.*.rank", "method.layers.*.pattern", "method.layers.*.train"),
    *("method.layers.*.rank", "embeddings.tokens", "embeddings.tokens.*.train"),
    *("embeddings.tokens.*.vectors", "embeddings.tokens.*.place"),
)
# What a change does, by the setting; the first pattern that matches.
_EFFECTS: Mapping[str, str] = {
    "*.start_from": "has no effect, since the checkpoint has the trained weights",
    "training.steps": "moves the run's end, and the schedules that depend on it from step {} on",
    "training.seed": "changes the order, the noise and the timesteps from step {} on",
    "model.path": "continues the trained weights on this model from step {} on",
    "optimizer.kind": "applies from step {} on, with a new optimizer state",
    "sampling.*": "applies to samples from step {} on",
    "output.*": "applies to files from step {} on",
    "metadata.*": "applies to files from step {} on",
    "*": "applies from step {} on",
}
# The second says where a run was made, which a moved folder no longer does.
NO_LENGTHS: Mapping[str, int] = {}
_RISE = 1.2
"""Times its last value, from which on a rising learning rate is a change to ask about."""
_LOW = 0.01
"""Fraction of the full rate, below which a LoRA of some hundred steps hardly changes."""
_WITHOUT_EFFECT = ("version", "output.folder")


def may_change(path: str) -> bool:
    """Return whether a run that goes on from a checkpoint may have another value of a setting."""
    return path not in _WITHOUT_EFFECT and not any(fnmatchcase(path, pattern) for pattern in _FIXED)


def changes_since(
    recorded: Mapping[str, Any],
    config: TrainConfig,
    *,
    step: int,
    decided: Mapping[str, int] = NO_LENGTHS,
) -> list[str]:
    """Describe the settings that changed since a checkpoint after `step` steps, and what each does.

    recorded: The config that the checkpoint holds; empty in those of earlier versions. decided: The
    steps of lengths in other units, as the run has decided them.

    Raises:
        UserError: If the checkpoint does not fit the config.
    """
    changed = list(_changed(recorded, config, step)) if recorded else []
    fixed = [
        Problem(
            one.path,
            f"“{_label(one)}” cannot change any more ({_values(one)})",
            f"Expected the value with which the run's first {step:,} steps were made",
            "Restore it, or start a new run.",
        )
        for one in changed
        if not may_change(one.path)
    ]
    steps = config.training.steps
    if isinstance(steps, int) and steps < step:
        what = f"“Length” is {steps:,} steps, but the run has made {step:,}"
        expected = "Expected at least as many as the checkpoint has"
        remedy = "Raise it (that of a resumed run is in its config.json), or start a new run."
        fixed.append(Problem("training.steps", what, expected, remedy))
    if len(fixed) > 1:
        raise ProblemsError(fixed)
    if fixed:
        raise UserError(f"{fixed[0].path}: {fixed[0].what}", fixed[0].expected, fixed[0].remedy)
    notes = [
        f"“{_label(one)}” ({one.path}) has changed ({_values(one)}); this {_effect(one, step)}"
        for one in changed
    ]
    rates = rate_change(recorded, config, step=step, decided=decided)
    return [*notes, *([rates.text] if rates is not None else [])]


@dataclass(frozen=True)
class RateChange:
    """A learning rate that rises where a run goes on.

    before, after: Of the last step that was made and of the next one, as fractions of the full
    rate.
    """

    before: float
    after: float

    @property
    def text(self) -> str:
        """What happens, and how the rate of the last step is kept instead."""
        kept = json.dumps(self.kept)
        return (
            f"the learning rate rises from {self.percent_before} to {self.percent_after} of the"
            f" full rate, which undoes a part of what the low rate has settled. To go on at the"
            f" rate of the last step{self.remark}: --set 'schedule={kept}'"
        )

    @property
    def percent_before(self) -> str:
        """The rate of the last step: "5 %"."""
        return _percent(self.before)

    @property
    def remark(self) -> str:
        """What is to be known of the rate of the last step, in parentheses; "" if nothing."""
        return " (which hardly trains any more)" if self.before < _LOW else ""

    @property
    def percent_after(self) -> str:
        """The rate of the next step."""
        return _percent(self.after)

    @property
    def kept(self) -> Document:
        """The schedule that keeps the rate of the last step."""
        return {"kind": "points", "points": [{"at": 0, "factor": float(f"{self.before:.3g}")}]}


def _steps_of(length: Steps, decided: Mapping[str, int]) -> int:
    """Return the steps of a length, also by another one of its unit; 0 where that is not known."""
    if isinstance(length, int):
        return length
    for text, steps in decided.items():
        other = parse_amount(text)
        if isinstance(other, Amount) and other.unit == length.unit:
            return round(steps * length.count / other.count)
    return 0


def _percent(fraction: float) -> str:
    percent = 100 * fraction
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def rate_change(
    recorded: Mapping[str, Any],
    config: TrainConfig,
    *,
    step: int,
    decided: Mapping[str, int] = NO_LENGTHS,
) -> RateChange | None:
    """Return how a longer run's learning rate rises after `step` steps; None if it does not.

    recorded, decided: As of `changes_since`.
    """
    if not recorded or step < 1:
        return None
    ran = recorded_config(recorded, step)
    steps = [_steps_of(each.training.steps, decided) for each in (ran, config)]
    if steps[0] == steps[1] or not all(steps):
        return None
    before, after = (
        lr_multiplier(
            in_steps(each.schedule, lambda amount: _steps_of(amount, decided)), step=at, steps=count
        )
        if not isinstance(each.schedule, CustomSchedule)
        else 0.0
        for each, at, count in zip((ran, config), (step - 1, step), steps, strict=True)
    )
    return RateChange(before, after) if before and after > _RISE * before else None


def config_at(folder: RunFolder, step: int | None) -> TrainConfig:
    """Return the config that a run's checkpoint holds; the newest one's for None.

    That of the run where a checkpoint of an earlier version holds none. Raises UserError.
    """
    state = state_at(folder, step)
    if recorded := state.get("config"):
        return recorded_config(recorded, state["step"])
    document = migrate(read_json(folder.config), source=str(folder.config), goes_on=True)
    return resolve(document, source=str(folder.config))


def recorded_config(recorded: Mapping[str, Any], step: int) -> TrainConfig:
    """Return the config that the checkpoint of a step holds.

    Raises UserError that names the checkpoint if it is none of this program.
    """
    source = f"checkpoints/step-{step:06d}/state.json"
    try:
        return resolve(migrate(dict(recorded), source=source, goes_on=True), source=source)
    except UserError as error:
        what = error.what.removeprefix(f"{source}: ")
        if isinstance(error, ProblemsError):
            what = some_of([f"{each.path}: {each.what}" for each in error.problems], 3)
        raise UserError(
            f"{source}: the config in it cannot be used ({what})",
            "Expected the config of a run, of this version of the program or an earlier one",
            f"Restore it, or delete the folder step-{step:06d} to go on from the one before it.",
        ) from error


def _changed(recorded: Mapping[str, Any], config: TrainConfig, step: int) -> Iterator[Difference]:
    for one in differences(recorded_config(recorded, step), config):
        # A setting that only one variant has is part of the change of the variant.
        if one.path not in _WITHOUT_EFFECT and not (one.left_lacks or one.right_lacks):
            yield from _in_entries(one)


def _in_entries(difference: Difference) -> Iterator[Difference]:
    """Yield a difference, or those of the entries of a list that is as long as before."""
    left, right = difference.left, difference.right
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        yield difference
        return
    for number, (before, after) in enumerate(zip(left, right, strict=True)):
        path = f"{difference.path}.{number}"
        if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
            for key in before:
                if before[key] != after[key]:
                    yield Difference(f"{path}.{key}", before[key], after[key])
        elif before != after:
            yield Difference(path, before, after)


def _label(difference: Difference) -> str:
    setting = setting_at(difference.path)
    return setting.ui.label if setting else difference.path


def _values(difference: Difference) -> str:
    return f"from {format_value(difference.left)} to {format_value(difference.right)}"


def _effect(difference: Difference, step: int) -> str:
    matching = (text for key, text in _EFFECTS.items() if fnmatchcase(difference.path, key))
    return next(matching).format(f"{step:,}")
