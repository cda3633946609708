"""The command `queue`."""

import argparse
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from onetrainer.cli.configs import startable
from onetrainer.cli.effects import ask_for_effects, ask_for_effects_of, note_effects
from onetrainer.cli.screen import Screen, print_lines, print_result
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, UserError
from onetrainer.messages.formatting import table
from onetrainer.messages.queue_rows import queue_rows, standing_of_queue
from onetrainer.presets import presets
from onetrainer.presets.find import locate
from onetrainer.presets.presets import with_overrides
from onetrainer.queue.forecast import forecast_missing
from onetrainer.queue.freeze import change_device, clone, freeze
from onetrainer.queue.listing import Listing
from onetrainer.queue.queue import Queue
from onetrainer.queue.serve import serve
from onetrainer.run.run_folder import open_run

_TAKING_A_RUN = ("now", "move", "remove", "clone", "device")


def queue(options: argparse.Namespace) -> int:
    """List, change or serve the queue of runs."""
    found = Queue()
    if options.action in ("add", *_TAKING_A_RUN) and not options.target:
        what = "a config, a preset or a run's folder" if options.action == "add" else "a run"
        raise UserError(f"queue {options.action}: {what} is missing", "", "Add it at the end")
    run = Path(options.target or "")
    match options.action:
        case "add":
            return _add(found, options)
        case "serve":
            return _serve(found, keeps=options.keep)
        case "now":
            found.run_now(run)
        case "move":
            found.move(run, options.to - 1)
        case "remove":
            found.remove(run)
        case "hold" | "go":
            found.hold(options.action == "hold")
        case "clear":
            found.forget_past()
        case "clone":
            clone(found, run)
        case "device":
            change_device(found, run, _device(options))
    return _list(found, options)


def _device(options: argparse.Namespace) -> str:
    if not options.device:
        raise UserError("queue device: the device is missing", "Expected --device, as cuda:1")
    return str(options.device)


def _add(found: Queue, options: argparse.Namespace) -> int:
    """Freeze one run or several, and append them; a run's folder is appended as it is."""
    if (Path(options.target) / "config.json").is_file() and not (options.set or options.sweep):
        run = open_run(Path(options.target))
        ask_for_effects_of(run, is_meant=options.yes)
        found.add([run])
        return _list(found, options)
    document = presets.load(options.target, options.set, may_be_run=True)
    if options.device:
        document = with_overrides(document, [f"hardware.device={options.device}"])
    check = partial(startable, source=options.target)
    if (place := Path(options.target)).is_dir():  # before checks write into the cache's folder
        asked = presets.with_absolute_paths(presets.resolve(document, source=options.target))
        ask_for_effects(asked, open_run(place), is_meant=options.yes)
    config = check(document)
    if not place.is_dir():
        note_effects(config, locate(options.target))
    found.add(freeze(config, options.sweep, check=check))
    return _list(found, options)


def _forecast(found: Queue) -> None:
    """Forecast what waits and has no forecast; Ctrl+C leaves the rest without one."""
    screen = Screen(sys.stderr)
    screen.update_status("forecasting when each will be done")
    with suppress(KeyboardInterrupt):
        for entry, _ in forecast_missing(found, set()):
            screen.update_status(f"forecast: {entry.folder.name}")
    screen.clear()


def _serve(found: Queue, *, keeps: bool) -> int:
    print_lines(["Serving the queue. Ctrl+C ends this; a run that is running goes on."])
    try:
        serve(
            found, lambda text: print_lines([f"{time.strftime('%H:%M:%S')}  {text}"]), keeps=keeps
        )
    except KeyboardInterrupt:
        for running in found.read().running:
            print_lines([f"{running.folder.name} goes on; to pause it: pause {running.run}"])
        return EXIT_STOPPED
    return EXIT_DONE


def _list(found: Queue, options: argparse.Namespace) -> int:
    if options.action in ("add", "clone", "device") and not options.no_forecast:
        _forecast(found)
    listing = Listing(found)
    document = [
        {
            "run": entry.run,
            "turn": entry.turn,
            "device": entry.device,
            "seconds_to_end": listing.ends.get(entry.run),
        }
        for entry in listing.state.entries
    ]
    print_result(document, _lines(listing), is_json=options.json)
    return EXIT_DONE


def _lines(listing: Listing) -> list[str]:
    rows = [
        (row.number, row.name, row.state, row.device, row.steps, row.done)
        for row in queue_rows(listing)
    ]
    lines = table([("", "run", "state", "device", "steps", "done"), *rows], left=(0, 1, 2, 3))
    state = listing.state
    what = "To add a run: queue add CONFIG" if not state.entries else ""
    if state.is_held:
        what = "To go on: queue go"
    elif state.waiting and not listing.is_served:
        what = "To begin: queue serve"
    return [*(lines if rows else ()), f"{standing_of_queue(listing)} {what}".strip()]
