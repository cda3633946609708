"""Lengths of a run in epochs or images: decided in steps once, before anything is loaded."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from modules.assembly.dataset import cache_folder, read_images
from modules.assembly.run_context import Run
from onetrainer.checks.preflight import require_startable
from onetrainer.config.base.amount import Amount, parse_amount
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import batch_plan
from onetrainer.dataset.dataset import without_damaged
from onetrainer.dataset.near_duplicates import cached_damage
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.images.image_index import ImageIndex
from onetrainer.messages.formatting import counted
from onetrainer.rewards.prompts import prompt_plan
from onetrainer.rules.rules import check_rules
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.schedules.amounts import Plan, in_steps, lengths, steps_of

_RECORD = TypeAdapter(dict[str, int])


class LengthsChanged(Exception):
    """Images could not be encoded, so that the run has to start again with other lengths."""


def with_decided_lengths(config: TrainConfig, folder: RunFolder) -> TrainConfig:
    """Return the config with its lengths in steps; unchanged if the run has not decided them all.

    Raises:
        UserError: If their record is damaged.
    """
    amounts = lengths(config)
    steps = _read(folder) if amounts else {}
    if any(str(amount) not in steps for amount in amounts):
        return config
    return in_steps(config, lambda amount: steps[str(amount)])


def decide_lengths(run: Run) -> Run:
    """Return the run with its lengths in steps, recorded in its folder.

    The record decides from then on: a resumed run is as long as it was going to be.

    Raises:
        CachingStopped: If asked to stop while the images are read.
        UserError: If the lengths do not go together, or cannot be recorded.
    """
    amounts = lengths(run.config)
    known, folder = _read(run.folder), cache_folder(run.config, run.folder.path)
    plan = plan_of(run.config, folder, run.events, run.inbox.is_leaving)
    steps = {str(amount): steps_of(amount, plan) for amount in amounts} | known
    config = in_steps(run.config, lambda amount: steps[str(amount)])
    require_startable(check_rules(config), source=str(run.folder.config))
    _write(run.folder, steps)
    for text in dict.fromkeys(map(str, amounts)):
        run.events.write(Phase("loading", detail=f"{text} = {counted(steps[text], 'step')}"))
    return replace(run, config=config)


def confirm_lengths(run: Run, plan: Plan) -> None:
    """Raise LengthsChanged if a new run's lengths are others. plan: Of the encoded images."""
    known = {} if run.last else _read(run.folder)
    amounts = [amount for text in known if isinstance(amount := parse_amount(text), Amount)]
    steps = {str(amount): steps_of(amount, plan) for amount in amounts}
    if steps != known:
        _write(run.folder, steps)
        raise LengthsChanged


def plan_of(
    config: TrainConfig, cache: Path, events: EventWriter, should_stop: Callable[[], bool]
) -> Plan:
    """Return how far a run will be after each step, as the headers of its images tell.

    Raises:
        CachingStopped: If asked to stop in the meantime.
    """
    if isinstance(config.objective, AlignProp):
        return prompt_plan(config)
    with closing(ImageIndex(cache)) as memory:
        dataset = read_images(config, memory, events, should_stop)
        return batch_plan(config, without_damaged(dataset, cached_damage(dataset.items, memory)))


def _read(folder: RunFolder) -> dict[str, int]:
    """Return the steps of each amount that was decided; none in a new run."""
    if not folder.lengths.is_file():
        return {}
    try:
        return _RECORD.validate_json(folder.lengths.read_bytes(), strict=True)
    except ValueError as error:
        raise UserError(
            f"{folder.lengths}: cannot be read as the record of a run's lengths",
            "Expected a file of this version of the program",
            "Delete it to decide them again from the images.",
        ) from error


def _write(folder: RunFolder, steps: dict[str, int]) -> None:
    try:
        write_atomic(folder.lengths, _RECORD.dump_json(steps))
    except OSError as error:
        raise cannot_write(folder.lengths, error) from error
