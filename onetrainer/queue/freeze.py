"""Run folders of a config before their runs begin: made, copied, and moved to another device."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.json_file import Document, read_json
from onetrainer.presets.presets import (
    change_config,
    load_document,
    resolve,
    with_absolute_paths,
    with_value,
)
from onetrainer.queue.queue import Queue, entry_of
from onetrainer.queue.sweep import swept
from onetrainer.run.run_folder import RunFolder, cannot_write, create_run


def _resolved(document: Document) -> TrainConfig:
    return resolve(document, source="the queue")


def freeze(
    config: TrainConfig,
    sweeps: Sequence[str] = (),
    *,
    check: Callable[[Document], TrainConfig] = _resolved,
) -> list[RunFolder]:
    """Create a run folder with a config, or one for each value that is swept over; see `swept`.

    check: Returns the config of a document that a run can start with; raises UserError otherwise.
    No folder is made unless all can start.
    """
    document = with_absolute_paths(config).model_dump(mode="json")
    configs = [with_absolute_paths(check(one)) for one in swept(document, sweeps)]
    return [
        create_run(
            Path(one.output.folder), name=one.output.name, config=one.model_dump(mode="json")
        )
        for one in configs
    ]


def freeze_again(run: RunFolder) -> RunFolder:
    """Create a run folder with the config of another run, beside it. Raises UserError."""
    document = with_value(load_document(run.config), "output.folder", str(run.path.parent))
    return freeze(resolve(document, source=str(run.config)))[0]


def clone(queue: Queue, run: Path) -> RunFolder:
    """Add a new run with the settings of one in the queue, which waits behind it.

    Raises UserError if it is not there, or is a job: that has nothing to do twice.
    """
    entry = queue.read().find(run)
    if entry.job:
        raise UserError(
            f"{run.name}: this is a job, which describes each image once",
            "Expected a run",
            "Start another one on the page Captioning",
        )
    made = freeze_again(entry.folder)
    with queue.changing() as change:  # the other one may have begun by now
        new = entry_of(made, entry.seconds)
        waiting = [each.run for each in change.state.waiting]
        place = waiting.index(entry.run) + 1 if entry.run in waiting else len(waiting)
        entries = (*change.state.entries, new)
        change.state = replace(change.state, entries=entries).with_waiting_at(new.run, place)
    return made


def change_device(queue: Queue, run: Path, device: str) -> None:
    """Let a waiting run or job compute on another device: "auto", "cuda:1", "cuda:0,cuda:1".

    Raises UserError if it does not wait, or there can be no such device.
    """
    with queue.changing() as change:
        entry = change.state.find_waiting(run)
        if entry.job:
            _change_job(entry.folder, device)
        else:
            change_config(entry.folder.config, {"hardware.device": device})
        names = entry_of(entry.folder).device
        seconds = entry.seconds if entry.job else 0.0  # another device has another speed
        change.state = change.state.with_entry(entry.run, device=names, seconds=seconds)


def _change_job(folder: RunFolder, device: str) -> None:
    # Only here: the window shows its first page without them.
    from onetrainer.jobs.caption_request import CaptionRequest
    from onetrainer.jobs.options import validate_request

    document = read_json(folder.config)
    document["request"] = {**document["request"], "device": device}
    validate_request(CaptionRequest, document["request"])
    try:
        write_atomic(folder.config, (json.dumps(document, indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(folder.config, error) from error
