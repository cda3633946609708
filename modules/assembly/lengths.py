"""Lengths of a run in epochs, images or minutes: decided in steps once, and recorded."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic

from pydantic import TypeAdapter

from modules.assembly.dataset import cache_folder, read_images
from modules.assembly.run_context import Run
from modules.assembly.trainer import Assembled
from modules.trainer import Trainer
from onetrainer.checks.preflight import require_startable
from onetrainer.config.base.amount import Amount, parse_amount
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import batch_plan
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.files.atomic import write_atomic
from onetrainer.images.image_index import ImageIndex
from onetrainer.messages.formatting import counted
from onetrainer.rewards.prompts import prompt_plan
from onetrainer.rules.rules import check_rules
from onetrainer.run.decided_lengths import decided_lengths
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.schedules.amounts import Plan, in_steps, lengths, steps_of

_RECORD = TypeAdapter(dict[str, int])


UNTIMED_STEPS = 2
"""Steps before the clock starts: the first ones take longer."""
TIMED_STEPS = 20
_ENOUGH_SECONDS = 20.0


class LengthsChanged(Exception):
    """The run has to start again: its speed was measured, or images could not be encoded."""


def with_decided_lengths(config: TrainConfig, folder: RunFolder) -> TrainConfig:
    """Return the config with its lengths in steps; unchanged if the run has not decided them all.

    Raises:
        UserError: If their record is damaged.
    """
    amounts = lengths(config)
    steps = decided_lengths(folder) if amounts else {}
    if any(str(amount) not in steps for amount in amounts):
        return config
    return in_steps(config, lambda amount: steps[str(amount)])


def decide_lengths(run: Run) -> Run:
    """Return the run with its lengths in steps, recorded in its folder.

    The record decides from then on: a resumed run is as long as it was going to be. If one is in
    minutes, the run returned is to measure the speed first.

    Raises:
        CachingStopped: If asked to stop while the images are read.
        UserError: If the lengths do not go together, or cannot be recorded.
    """
    known, config = decided_lengths(run.folder), run.config
    missing = [amount for amount in lengths(config) if str(amount) not in known]
    timed = [amount for amount in missing if amount.unit == "minutes"]
    if len(timed) < len(missing):
        folder = cache_folder(config, run.folder.path)
        plan = plan_of(config, folder, run.events, run.inbox.is_leaving)
        counts = {str(a): steps_of(a, plan) for a in missing if a.unit != "minutes"}
        _write(run.folder, known := counts | known)
    if timed:
        some = run.first_step + UNTIMED_STEPS + TIMED_STEPS
        few = in_steps(config, lambda amount: known.get(str(amount), some))
        return replace(run, config=few, undecided=config)
    _require_sound(run, config, known)
    report_lengths(run, config)
    return replace(run, config=with_decided_lengths(config, run.folder))


def report_lengths(run: Run, config: TrainConfig) -> None:
    """Report the lengths of a config that the run has decided."""
    steps = decided_lengths(run.folder) if lengths(config) else {}
    for text in dict.fromkeys(map(str, lengths(config))):
        if text in steps:
            run.events.write(Phase("loading", detail=f"{text} = {counted(steps[text], 'step')}"))


def measure_speed(run: Run, assembled: Assembled) -> None:
    """Decide lengths in minutes from the time of a few steps; return only if asked to stop.

    These steps are made again: the run is then, bit for bit, the run of as many steps.

    Raises:
        LengthsChanged: Once they are recorded.
        UserError: If the lengths do not go together, or cannot be recorded.
    """
    assert run.undecided is not None
    run.events.write(Phase("loading", detail="measuring how long a step takes"))
    for task in assembled.tasks.evaluate:
        if task.evaluation.is_required:
            task.begin(run.first_step, run.past_events)
    trainer = assembled.trainer
    steps = min(trainer.steps, run.first_step + UNTIMED_STEPS + TIMED_STEPS)
    timer = _Timer(trainer, steps)
    few = replace(trainer, steps=steps, tasks=(), should_stop_early=timer.is_enough)
    if few.run() != "done":
        return
    seconds = timer.seconds_per_step()
    amounts = lengths(run.undecided)
    known = {str(a): steps_of(a, None, seconds) for a in amounts if a.unit == "minutes"}
    known |= decided_lengths(run.folder)
    _require_sound(run, run.undecided, known)
    _write(run.folder, known)
    raise LengthsChanged


class _Timer:
    """Times the steps of a trainer."""

    def __init__(self, trainer: Trainer, steps: int) -> None:
        self._trainer = trainer
        self._last = steps
        self._untimed = trainer.state.step + UNTIMED_STEPS
        self._first, self._start = trainer.state.step, monotonic()

    def is_enough(self) -> bool:
        """Return whether enough is known of the speed. Called between the steps."""
        step = self._trainer.state.step
        if step == self._untimed != self._first and step < self._last:
            self._trainer.report.flush()  # waits for the GPU
            self._first, self._start = step, monotonic()
        return step > self._untimed and monotonic() - self._start > _ENOUGH_SECONDS

    def seconds_per_step(self) -> float:
        """Return the mean so far; of all steps if there were no more than untimed ones."""
        return (monotonic() - self._start) / max(1, self._trainer.state.step - self._first)


def confirm_lengths(run: Run, plan: Plan) -> None:
    """Raise LengthsChanged if a new run's lengths are others. plan: Of the encoded images."""
    known = {} if run.last else decided_lengths(run.folder)
    amounts = [amount for text in known if isinstance(amount := parse_amount(text), Amount)]
    counts = {str(a): steps_of(a, plan) for a in amounts if a.unit != "minutes"}
    if counts.items() - known.items():
        _write(run.folder, known | counts)
        raise LengthsChanged


def plan_of(
    config: TrainConfig, cache: Path, events: EventWriter, should_stop: Callable[[], bool]
) -> Plan:
    """Return how far a run will be after each step, as the headers of its images tell.

    Raises:
        CachingStopped: If asked to stop in the meantime.
    """
    if isinstance(config.objective, AlignProp | Slider):
        return prompt_plan(config)
    with closing(ImageIndex(cache)) as memory:
        dataset = read_images(config, memory, events, should_stop)
        return batch_plan(config, PixelFacts(memory).apply(dataset))


def _require_sound(run: Run, config: TrainConfig, steps: Mapping[str, int]) -> None:
    """Raise UserError if the rules forbid the decided lengths of a config."""
    decided = in_steps(config, lambda amount: steps[str(amount)])
    require_startable(check_rules(decided), source=str(run.folder.config))


def _write(folder: RunFolder, steps: dict[str, int]) -> None:
    try:
        write_atomic(folder.lengths, _RECORD.dump_json(steps))
    except OSError as error:
        raise cannot_write(folder.lengths, error) from error
