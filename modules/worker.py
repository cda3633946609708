"""Entry point of the worker: `python -m modules.worker RUN_FOLDER`, or `--job NAME`.

With a folder it locks the folder and trains, and starts the other processes of the run, if it has
more: `--follow`, where environment variables say which one each is. A job reads its request from
standard input and writes events to standard output; `--warm` does so with one after the other.
Every failure becomes one event, a message in the log and an exit code.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from io import FileIO, TextIOWrapper
from pathlib import Path
from time import strftime, time
from typing import Any, TextIO

from modules.training.device_turn import owning_device, report_early_end
from modules.training.importing import importing
from modules.training.inbox import Inbox
from modules.training.signals import ignoring_signals, pausing_at_signals
from modules.world.launch import ADDRESS, Place, place_in, start_others, variables_of
from modules.world.link import Hub, Line
from onetrainer.config.base.section import Section
from onetrainer.config.run.hardware import process_count
from onetrainer.errors import EXIT_DONE, EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER, UserError
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.model_files.hub import is_hub_name
from onetrainer.redaction import without_tokens
from onetrainer.run.client import FOLLOW, WARM
from onetrainer.run.event_log import EventWriter, rewind
from onetrainer.run.events import (
    Event,
    Failed,
    Finished,
    Phase,
    Report,
    Started,
    Stopped,
    exit_code_for,
)
from onetrainer.run.failures import OUT_OF_MEMORY, failed
from onetrainer.run.job_folders import JOB, is_job
from onetrainer.run.log_file import keep_log_bounded
from onetrainer.run.run_folder import RunFolder, open_run
from onetrainer.run.wire import encode_event

_ALLOCATOR = "PYTORCH_ALLOC_CONF"
"""Source: torch's notes on CUDA semantics, "Optimizing memory usage"; the older name works too."""
_END_SECONDS = 5.0
"""How long the other processes have to end after the run has."""


def main(arguments: list[str]) -> int:
    """Train a run folder or run a job; return the exit code."""
    faulthandler.enable()  # a crash in a library writes a traceback to the log
    match arguments:
        case ["--job", name]:
            return _job(name)
        case [option] if option == FOLLOW:
            return _follow()
        case [option] if option == WARM:
            return _warm()
        case [folder]:
            return _run(Path(folder))
        case _:
            options = f"RUN_FOLDER | --job NAME | {FOLLOW} | {WARM}"
            return _print_and_return(f"usage: python -m modules.worker {options}", EXIT_USER)


def _run(path: Path) -> int:
    with _logging():
        try:
            is_job_here = is_job(RunFolder(path))
            folder = open_run(path, may_be_job=is_job_here)
            leave = partial(os._exit, EXIT_STOPPED)
            report = partial(report_early_end, folder)
            inbox = Inbox(folder.commands, leave=leave, report=report)
            with (
                closing(inbox),
                pausing_at_signals(inbox),
                folder.locked(),
                owning_device(folder, inbox),
            ):
                return _job_in(folder, inbox) if is_job_here else _train(folder, inbox)
        except UserError as error:
            return _print_and_return(str(error), EXIT_USER)


def _follow() -> int:
    """Do this process's part of a run, as its first process orders."""
    place = place_in(os.environ)
    with _logging(), ignoring_signals():
        _print_and_return(f"process {place.rank} of {place.size}: {os.getpid()}", 0)
        link: Hub | Line | None = None
        try:
            link = Line(place.address, place.rank) if place.address else None
            _set_environment([], is_offline=os.environ.get("HF_HUB_OFFLINE") == "1")
            with importing():
                from modules.jobs.follow import follow
                from modules.world.world import World
            world = World(place, link)
            try:
                return follow(world)
            finally:
                link = world.link
        except Exception as error:  # noqa: BLE001 - the edge: every failure is reported
            traceback.print_exc()
            if isinstance(link, Line):
                link.report(failed(error))
            return EXIT_PROGRAM


@contextmanager
def _other_processes(folder: RunFolder) -> Iterator[tuple[Place, Hub | None]]:
    """Yield this process's place among those of its run, which are started unless others did."""
    place, variables = place_in(os.environ), {}
    if place.size == 1:
        hardware = _section(_parse_object(_read(folder.config)), "hardware")
        device, count = str(hardware.get("device", "auto")), int(hardware.get("processes") or 0)
        if (count := process_count(device, count)) == 1:
            yield place, None
            return
        threads = int(hardware.get("threads") or 0)
        variables = variables_of(count, device=device, threads=threads)
        os.environ.update(variables | {"RANK": "0", "LOCAL_RANK": "0"})
        place = place_in(os.environ)
    hub = Hub(
        place.size,
        host=place.host,
        log_of=lambda rank: str(folder.log_of(rank)),
        on_lost=partial(_end_at_once, folder),
    )
    processes: dict[int, subprocess.Popen[bytes]] = {}
    is_done = False
    try:
        if variables:
            processes = start_others(folder, variables | {ADDRESS: hub.address})
        hub.start(processes)
        yield place, hub
        is_done = True
    finally:
        hub.close(is_done=is_done)
        for process in processes.values():
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _end_at_once(folder: RunFolder, error: UserError) -> None:
    """End a run whose main thread may wait for a process that is gone."""
    _write(folder, failed(error))
    _print_and_return(str(error), EXIT_PROGRAM)
    os._exit(EXIT_PROGRAM)


@contextmanager
def _logging() -> Iterator[None]:
    """Write what this process and its libraries print to its log."""
    log = TextIOWrapper(_Log(2, "wb", closefd=False), "utf-8", "replace", line_buffering=True)
    with redirect_stdout(log), redirect_stderr(log):
        yield


class _Log(FileIO):
    """The worker's log, which may be incomplete: a full disk ends no library's print.

    Access tokens, as in the addresses that libraries name, are left out.
    """

    def write(self, data: bytes) -> int:  # type: ignore[override] # all that texts become
        with suppress(OSError):
            super().write(without_tokens(data.decode(errors="replace")).encode())
        return len(data)


def _train(folder: RunFolder, inbox: Inbox) -> int:
    keep_log_bounded(folder.log)
    _print_and_return(f"worker {os.getpid()} begins at {strftime('%Y-%m-%d %H:%M:%S')}", 0)
    try:
        config = _parse_object(_read(folder.config))
        names, is_offline = _model_names(config)
        _set_environment(names, is_offline=is_offline)
        _set_allocator(_section(config, "hardware"))
        with _other_processes(folder) as (place, hub):
            with inbox.while_loading(), importing():
                from modules.jobs.train import train
                from modules.world.world import World
            return train(folder, inbox, World(place, hub))
    except UserError as error:
        _write(folder, failed(error))
        return _print_and_return(str(error), EXIT_USER)  # last: also for readers of the log
    except Exception as error:  # noqa: BLE001 - the edge: every failure is reported
        traceback.print_exc()
        safe = f"Everything up to the last checkpoint is safe. Details are in {folder.log}"
        failure = failed(error, otherwise=safe)
    # Outside the except clause, where the error keeps everything on the device alive.
    if failure.failure in OUT_OF_MEMORY:
        failure = _explain_out_of_memory(folder, failure)
    _write(folder, failure)
    return _print_and_return(failure.what, exit_code_for(failure) or EXIT_PROGRAM)


def _explain_out_of_memory(folder: RunFolder, failure: Failed) -> Failed:
    """Return a failure that says what takes the memory; the plain one if that is unknown."""
    try:
        from modules.forecast.out_of_memory import explain_failure

        return replace(explain_failure(folder), failure=failure.failure)
    except Exception:  # noqa: BLE001 - the original failure is reported
        traceback.print_exc()
        return failure


def _job_in(folder: RunFolder, inbox: Inbox) -> int:
    """Run a job whose request is in a folder, as the queue starts it.

    Asked to end, it does so at once: such jobs keep what they have done so far.
    """
    rewind(folder.events, 0)
    events = EventWriter(folder.events)
    events.write(Started(os.getpid(), 0, 0))
    done = 0

    def report(event: Event) -> None:
        nonlocal done
        done = event.done if isinstance(event, Phase) else done
        events.write(event)

    request = _section(_parse_object(_read(folder.config)), "request")
    _set_environment([str(request.get("model", ""))], is_offline=bool(request.get("offline")))
    try:
        with inbox.while_loading(lambda reason: events.write_last(Stopped(done, reason))):
            finished = _run_job(JOB, json.dumps(request), report, is_interrupted=False)
        events.write(finished)
        return EXIT_DONE
    except Exception as error:  # noqa: BLE001 - the edge: every failure is reported
        if not isinstance(error, UserError):
            traceback.print_exc()
        failure = failed(error, otherwise=f"Details are in {folder.log}")
        events.write(failure)
        return _print_and_return(str(error), exit_code_for(failure) or EXIT_PROGRAM)
    finally:
        events.close()


def _job(name: str) -> int:
    report = _reporter_to(_take_stdout())
    try:
        text = sys.stdin.buffer.read().decode()
        settings = _parse_object(text)
        models = [str(settings.get(key, "")) for key in ("base", "model")]
        _set_environment(models, is_offline=bool(settings.get("offline")))
        report(_run_job(name, text, report))
        return EXIT_DONE
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except UserError as error:
        return _report_failure(report, failed(error))
    except Exception as error:  # noqa: BLE001 - the edge: every failure is reported
        sys.stderr.write(without_tokens(traceback.format_exc()))
        return _report_failure(report, failed(error))


def _warm() -> int:
    """Answer requests for images, with a model that stays loaded."""
    report = _reporter_to(_take_stdout())
    try:
        settings = _parse_object(first := sys.stdin.buffer.readline().decode())
        _set_environment([str(settings.get("base", ""))], is_offline=bool(settings.get("offline")))
        with importing():
            from modules.jobs.warm import warm
        return warm(first, sys.stdin.buffer, report)
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except Exception as error:  # noqa: BLE001 - the edge: every failure is reported
        sys.stderr.write(without_tokens(traceback.format_exc()))
        return _report_failure(report, failed(error))


def _run_job(name: str, text: str, report: Report, *, is_interrupted: bool = True) -> Finished:
    """Import a job, after the environment is set, and run it.

    is_interrupted: Signals that ask this process to end interrupt the job.
    """
    with importing():
        from onetrainer.jobs.job import REQUESTS

        request = REQUESTS[name].model_validate_json(text)
        jobs = vars(import_module(f"modules.jobs.{name}"))
    job: Callable[[Section, Report], Finished] = jobs[name]
    # Only now: until here SIGTERM ends the process at once, also in the middle of a library.
    # SIGINT also where the parent ignored it, as in the background of a shell.
    for number in (signal.SIGINT, signal.SIGTERM) if is_interrupted else ():
        signal.signal(number, signal.default_int_handler)
    return job(request, report)


def _model_names(config: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return the models that a config may have to download, and whether it forbids downloads."""
    model, objective = (_section(config, key) for key in ("model", "objective"))
    rewards = objective.get("rewards")
    entries = rewards if isinstance(rewards, list) else []
    networks = [str(entry.get("model", "")) for entry in entries if isinstance(entry, dict)]
    return [str(model.get("path", "")), *networks], bool(model.get("offline"))


def _section(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = config.get(key)
    return section if isinstance(section, dict) else {}


def _set_environment(names: list[str], *, is_offline: bool) -> None:
    """Set environment variables that libraries read on import.

    Args:
        names: Of the models that the run needs.
        is_offline: Whether downloads are forbidden.
    """
    if is_offline or not any(map(is_hub_name, names)):
        # No library may use the network: everything needed is on this disk.
        os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _set_allocator(hardware: Mapping[str, Any]) -> None:
    """Choose how torch takes GPU memory, unless a person has: it reads that when it is imported."""
    if hardware.get("expandable_segments") is True and sys.platform != "win32":
        if not {_ALLOCATOR, "PYTORCH_CUDA_ALLOC_CONF"} & os.environ.keys():
            os.environ[_ALLOCATOR] = "expandable_segments:True"


def _take_stdout() -> TextIO:
    """Return standard output for events alone; libraries' prints go to standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    return events


def _reporter_to(stream: TextIO) -> Report:
    def report(event: Event) -> None:
        try:
            stream.write(encode_event(event, time=time()))
            stream.flush()
        except BrokenPipeError:
            # The parent process is gone: end as after an interrupt.
            raise KeyboardInterrupt from None

    return report


def _report_failure(report: Report, event: Failed) -> int:
    try:
        report(event)
    except KeyboardInterrupt:
        return EXIT_STOPPED
    return exit_code_for(event) or EXIT_PROGRAM


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _parse_object(text: str) -> Mapping[str, Any]:
    """Parse a JSON object; empty if it is not one, which the job itself reports."""
    try:
        return parse_object(text)
    except NotOurs:
        return {}


def _write(folder: RunFolder, event: Failed) -> None:
    try:
        events = EventWriter(folder.events)
        events.write(event)
        events.close()
    except (OSError, UserError) as error:
        _print_and_return(f"{folder.events}: cannot be written ({error})", EXIT_PROGRAM)


def _print_and_return(text: str, code: int) -> int:
    sys.stderr.write(text + "\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
