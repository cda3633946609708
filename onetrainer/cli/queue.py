"""The command `queue`."""

import argparse
import time
from functools import partial
from pathlib import Path

from onetrainer.cli.configs import startable
from onetrainer.cli.screen import print_lines, print_result
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, UserError
from onetrainer.jobs.job import Job
from onetrainer.jobs.plan_request import PlanRequest
from onetrainer.messages.formatting import counted, table
from onetrainer.presets import presets
from onetrainer.presets.presets import with_absolute_paths, with_overrides
from onetrainer.queue.freeze import freeze
from onetrainer.queue.queue import Entry, Queue, QueueState, other_owners, summary_of
from onetrainer.queue.serve import is_served, serve
from onetrainer.queue.sweep import swept
from onetrainer.queue.times import seconds_to_end
from onetrainer.run.events import Forecast
from onetrainer.run.run_folder import open_run

_TAKING_A_RUN = ("now", "move", "remove")


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
    return _list(found, is_json=options.json)


def _add(found: Queue, options: argparse.Namespace) -> int:
    """Freeze one run or several, and append them; a run's folder is appended as it is."""
    if (Path(options.target) / "config.json").is_file() and not (options.set or options.sweep):
        found.add([open_run(Path(options.target))])
        return _list(found, is_json=options.json)
    document = presets.load(options.target, options.set, may_be_run=True)
    if options.device:
        document = with_overrides(document, [f"hardware.device={options.device}"])
    check = partial(startable, source=options.target)
    config = check(document)
    swept(document, options.sweep)  # before the forecast, which takes a while
    seconds = 0.0
    if not options.no_forecast:
        seconds = _forecast_seconds(PlanRequest(config=with_absolute_paths(config)))
    found.add(freeze(config, options.sweep, check=check), seconds)
    return _list(found, is_json=options.json)


def _forecast_seconds(request: PlanRequest) -> float:
    """Return how long a run is forecast to take; 0 if that is not known."""
    seconds = 0.0
    for event in Job("plan", request.model_copy(update={"fixes": False})).events():
        if isinstance(event, Forecast):
            seconds = float(event.time.get("run_seconds", 0.0))
    return seconds


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


def _list(found: Queue, *, is_json: bool) -> int:
    state = found.read()
    ends = seconds_to_end(state)
    document = [
        {"run": entry.run, "turn": entry.turn, "seconds_to_end": ends.get(entry.run)}
        for entry in state.entries
    ]
    print_result(document, _lines(found, state, ends), is_json=is_json)
    return EXIT_DONE


def _lines(found: Queue, state: QueueState, ends: dict[str, float | None]) -> list[str]:
    if not state.entries:
        return ["The queue is empty. To add a run: queue add CONFIG"]
    numbers = {entry.run: str(n) for n, entry in enumerate(state.waiting, start=1)}
    rows = [_row(entry, numbers.get(entry.run, ""), ends.get(entry.run)) for entry in state.entries]
    lines = table(rows, left=(0, 1, 2))
    for other in other_owners(state):
        lines.append(f"{other.name}, which the queue did not start, uses the device.")
    waiting = counted(len(state.waiting), "run")
    if state.is_held:
        lines.append(f"The queue is held: {waiting} waiting. To go on: queue go")
    elif state.waiting and not is_served(found):
        lines.append(f"{waiting} waiting, and nothing serves the queue. To begin: queue serve")
    return lines


def _row(entry: Entry, number: str, end: float | None) -> tuple[str, ...]:
    run = summary_of(entry)
    if run is None:
        return number, entry.folder.name, "its folder is gone", "", ""
    steps = f"{run.step:,} of {run.total_steps:,}" if run.total_steps else ""
    turn = entry.turn if entry.turn != "over" else entry.error or run.standing
    when = "" if end is None else time.strftime("done %a %H:%M", time.localtime(time.time() + end))
    return number, entry.folder.name, turn, steps, when
