"""The commands `train`, `fork`, `resume`, `stop` and `pause`."""

import argparse
import json
from pathlib import Path

from onetrainer.cli.configs import startable
from onetrainer.cli.effects import ask_for_effects, ask_for_effects_of, note_effects
from onetrainer.cli.follow import ended_text, follow, resume_command
from onetrainer.cli.screen import print_lines
from onetrainer.config.migrate import migrate
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.json_file import Document, read_json
from onetrainer.presets import presets
from onetrainer.presets.find import locate
from onetrainer.rules.changes import changes_since
from onetrainer.run import client
from onetrainer.run.client import Run
from onetrainer.run.commands import Leaving
from onetrainer.run.decided_lengths import decided_lengths
from onetrainer.run.fork import copy_history, state_at
from onetrainer.run.run_folder import RunFolder, cannot_write, create_run, fill_run, open_run

_PROCESSES = "hardware.processes"


def train(options: argparse.Namespace) -> int:
    """Resolve and check a config, then train it to the end in a worker."""
    if client.is_follower():
        return client.follow_first()
    document = presets.load(options.config, options.set)
    if options.processes is not None:
        document = presets.with_value(document, _PROCESSES, options.processes)
    config = _checked(document, options.run_folder, source=options.config)
    note_effects(config, locate(options.config))
    folder = _new_folder(config, options.run_folder)
    print_lines([f"Run folder: {folder.path}"])
    return follow(lambda: client.start(folder))


def fork(options: argparse.Namespace) -> int:
    """Start a new run that goes on from a kept checkpoint of another one."""
    source = open_run(options.run)
    state = state_at(source, options.step)
    document = presets.load_document(source.config, goes_on=True)
    document = presets.with_value(document, "output.folder", str(source.path.parent))
    document = presets.with_overrides(document, options.set)
    # Before anything is looked at, since checks write what they find into the cache's folder.
    asked = presets.with_absolute_paths(presets.resolve(document, source=str(source.config)))
    ask_for_effects(asked, source, is_meant=options.yes)
    config = _checked(document, options.run_folder, source=str(source.config))
    decided = decided_lengths(source)
    recorded, step = state.get("config", {}), state["step"]
    print_lines(changes_since(recorded, config, step=step, decided=decided))
    folder = _new_folder(config, options.run_folder)
    copy_history(source, state, folder)
    print_lines([f"Run folder: {folder.path}, from step {state['step']:,} of {source.name}"])
    return follow(lambda: client.start(folder))


def resume(options: argparse.Namespace) -> int:
    """Resume a run from its newest checkpoint, or follow it if it is running."""
    if client.is_follower():
        return client.follow_first()
    folder = open_run(options.run_folder)
    if folder.is_busy():
        print_lines([f"{folder.name} is already being trained; following it."])
        return follow(lambda: client.attach(folder))
    ask_for_effects_of(folder, is_meant=options.yes)
    if options.processes is not None:
        _set_processes(folder, options.processes)
    return follow(lambda: client.start(folder))


def stop(options: argparse.Namespace) -> int:
    """Stop a run that is running, and save what it has trained unless told otherwise."""
    if options.now:
        run = _running(options.run_folder)
        run.kill()
        return print_lines([ended_text(run.folder)])
    return _leave(options.run_folder, "discard" if options.without_saving else "stop")


def pause(options: argparse.Namespace) -> int:
    """Save a checkpoint of a run that is running, and end it."""
    return _leave(options.run_folder, "pause")


def _running(path: Path) -> Run:
    """Return a run that is running. Raises UserError if it is not."""
    folder = open_run(path)
    if not folder.is_busy():
        raise UserError(
            f"{path}: this run is not running",
            "Expected the folder of a run in progress",
            f"To continue it: {resume_command(folder)}",
        )
    return client.attach(folder)


def _set_processes(folder: RunFolder, count: int) -> None:
    """Change how many processes train a run, in its config."""
    document = presets.with_value(read_json(folder.config), _PROCESSES, count)
    presets.resolve(
        migrate(document, source=str(folder.config), goes_on=True), source=str(folder.config)
    )
    try:
        write_atomic(folder.config, (json.dumps(document, indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(folder.config, error) from error


def _leave(path: Path, leaving: Leaving) -> int:
    run = _running(path)
    while not run.poll().is_complete:  # only what follows is shown
        pass
    code = follow(lambda: run, leaving=leaving)
    return EXIT_DONE if code == EXIT_STOPPED else code


def _checked(document: Document, own: Path | None, *, source: str) -> TrainConfig:
    """Return the config of a document that a run can start with. own: A folder for this run."""
    if own is not None:
        # Check the folder that is really used, which also is the parent of the cache.
        document = presets.with_value(document, "output.folder", str(own.absolute().parent))
    option = "--run-folder" if own is not None else ""
    return startable(document, source=source, folder_option=option)


def _new_folder(config: TrainConfig, own: Path | None) -> RunFolder:
    values = config.model_dump(mode="json")
    if own is not None:
        return fill_run(own, config=values)
    return create_run(Path(config.output.folder), name=config.output.name, config=values)
