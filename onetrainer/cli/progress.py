"""Progress and result of a run or a job in the terminal."""

import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TextIO

from onetrainer.config.base.section import Section
from onetrainer.errors import (
    EXIT_PROGRAM,
    EXIT_STOPPED,
    EXIT_USER,
    UserError,
    problem_json,
    sentence,
)
from onetrainer.jobs.job import Job, JobName
from onetrainer.jobs.options import naming_options
from onetrainer.run.client import Run, log_tail
from onetrainer.run.events import (
    Checkpoint,
    Evaluated,
    Event,
    Failed,
    Finished,
    Forecast,
    Phase,
    Progress,
    Rewarded,
    Sample,
    Started,
    Stopped,
    Validated,
    Warned,
    exit_code_for,
)

_POLL_SECONDS = 0.1
_SECONDS_PER_STATUS = 10.0
_BAR = 24


class Screen:
    """Writes permanent lines and, on a terminal, a status line that is overwritten."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._last_status = monotonic()
        self._width = 0

    def write_line(self, text: str) -> None:
        """Write a permanent line."""
        self.clear()
        self._out.write(text + "\n")
        self._out.flush()

    def update_status(self, text: str, *, always: bool = False) -> None:
        """Overwrite the status line; in a file, add a line every ten seconds, or if `always`."""
        if self._is_terminal:
            text = text[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + text.ljust(self._width))
            self._width = len(text)
            self._out.flush()
        elif always or monotonic() - self._last_status >= _SECONDS_PER_STATUS:
            self._last_status = monotonic()
            self.write_line(text)

    def clear(self) -> None:
        """Remove the status line."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Call an action at Ctrl+C and SIGTERM, instead of ending this process."""
    names = (signal.SIGINT, signal.SIGTERM)
    previous = {name: signal.signal(name, lambda *_: action()) for name in names}
    try:
        yield
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)


def follow(start: Callable[[], Run], *, out: TextIO | None = None) -> int:
    """Start or attach to a run, show it until its worker ends and return the exit code.

    The first interrupt stops the run, the second kills it. None is lost while the worker starts.
    """
    screen = Screen(out or sys.stdout)
    interrupts: list[None] = []
    with on_interrupt(lambda: interrupts.append(None)):
        follower = _Follower(start(), screen)
        is_stopping = False
        while (code := follower.poll()) is None:
            if len(interrupts) > 1:
                follower.run.kill()
                screen.write_line("Killed. The run can be resumed from its last checkpoint.")
                return EXIT_STOPPED
            if interrupts and not is_stopping:
                is_stopping = True
                follower.run.send("stop")
                screen.write_line(
                    "Stopping and saving after this step. Press Ctrl+C again to kill the run."
                )
            sleep(_POLL_SECONDS)
        follower.run.wait()
        return code


class _Follower:
    """Shows the events of one worker, but not those of earlier workers of the run."""

    def __init__(self, run: Run, screen: Screen) -> None:
        self.run = run
        self._screen = screen
        self._pid = run.pid
        self._is_ours = False
        self._rewarded: Rewarded | None = None

    def poll(self) -> int | None:
        """Show new events; return the exit code if the worker has ended."""
        was_alive = self.run.is_alive
        news = self.run.poll()
        code: int | None = None
        for event in news.events:
            if isinstance(event, Started):
                self._is_ours = event.pid == self._pid
            if self._is_ours:
                self._show(event)
            code = exit_code_for(event)
        if self._is_ours and code is not None:
            return code
        if was_alive or not news.is_complete:
            return None
        return self._show_exit()

    def _show(self, event: Event) -> None:
        folder, write_line = self.run.folder, self._screen.write_line
        match event:
            case Started():
                write_line(f'"{folder.name}" {_start_message(event)}')
            case Phase():
                if event.name != "training":
                    self._screen.update_status(_phase_line(event))
            case Rewarded():  # precedes the Progress of its step
                self._rewarded = event
            case Progress():
                line = _progress_line(event, self._rewarded)
                self._screen.update_status(line, always=event.step == event.total_steps)
            case Sample():
                write_line(f"sample after step {event.step}: {folder.path / event.path}")
            case Validated(weights="last"):
                loss = f"validation loss {event.loss:.3g}"
                write_line(f"after step {event.step}, without EMA: {loss}")
            case Validated() | Evaluated():
                warning = "warning: " if event.verdict == "hacking" else ""
                write_line(f"{warning}after step {event.step}: {sentence(event.words)}")
            case Checkpoint():
                self._screen.update_status(f"checkpoint: {event.path}")
            case Warned():
                write_line(f"warning: {event.text}")
            case Finished() | Stopped() | Failed():
                self._show_ending(event)

    def _show_ending(self, event: Finished | Stopped | Failed) -> None:
        folder, write_line = self.run.folder, self._screen.write_line
        if isinstance(event, Failed):
            write_line(str(UserError(event.what, event.expected, event.remedy)))
            return
        if isinstance(event, Finished):
            write_line(f"Done: {event.step} steps.")
            for line in event.summary:
                write_line(f"  {line}")
        else:
            word = "Paused" if event.reason == "pause" else "Stopped"
            write_line(f"{word} after step {event.step}.")
            write_line(f"To continue: onetrainer resume {shlex.quote(str(folder.path))}")
        if any(folder.samples.glob("*.png")):
            write_line(f"Samples: {folder.samples}")
        if any(folder.rewards.glob("step-*/")):
            write_line(f"Images of the validation prompts: {folder.rewards}")
        for path in event.outputs:
            write_line(f"File: {folder.path / path}")

    def _show_exit(self) -> int:
        unexpected_exit = self.run.unexpected_exit()
        write_line = self._screen.write_line
        log = unexpected_exit.log if unexpected_exit else log_tail(self.run.folder.log)
        if self.run.exit_code == EXIT_USER:  # the reason is in the log, not in the events
            write_line(log[-1] if log else "The worker could not start.")
            return EXIT_USER
        write_line(unexpected_exit.what if unexpected_exit else "The worker ended.")
        for line in log:
            write_line(f"  | {line}")
        write_line(f"The log is {self.run.folder.log}")
        return EXIT_PROGRAM


def _start_message(event: Started) -> str:
    if event.step >= event.total_steps:
        return f"has already done all {event.total_steps} steps"
    start = f"continues after step {event.step}" if event.step else "starts"
    return f"{start}: {event.total_steps} steps in total"


def _phase_line(event: Phase) -> str:
    """Return what a worker is doing, for example "sampling 1/4 (step 3 of 20)"."""
    count = f" {event.done}/{event.total}" if event.total else ""
    return f"{event.name}{count}" + (f" ({event.detail})" if event.detail else "")


def _progress_line(event: Progress, rewarded: Rewarded | None) -> str:
    """Return the progress bar. rewarded: The last step with rewards; None if there was none."""
    done = event.step / event.total_steps
    filled = round(done * _BAR)
    eta = f"  ETA {_clock(event.eta_seconds)}" if event.eta_seconds >= 0 else ""
    trained = f"loss {event.loss:.4f}"
    if rewarded is not None and rewarded.step == event.step:
        trained = f"reward {rewarded.reward:.3f} ± {rewarded.spread:.3f}"
    return (
        f"step {event.step}/{event.total_steps} {'█' * filled}{'░' * (_BAR - filled)} {done:4.0%}"
        f"  {trained}  {event.steps_per_second:.2f} it/s{eta}  {event.memory_bytes / 2**30:.1f} GiB"
    )


def _clock(seconds: float) -> str:
    """Format seconds as h:mm:ss, or m:ss below one hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def run_job(
    name: JobName,
    request: Section,
    *,
    is_json: bool = False,
    lines_of: Callable[[Forecast], list[str]] = lambda _: [],
) -> int:
    """Run a job, show its progress and return its exit code.

    Ctrl+C stops it, a second one kills it. Errors go to standard error. is_json: Standard output
    gets no progress, and errors also there, as JSON. lines_of: The lines to print for a forecast.
    """
    screen = Screen(sys.stderr if is_json else sys.stdout)
    started: list[Job] = []
    early: list[None] = []  # interrupts while it starts
    code = EXIT_PROGRAM
    with on_interrupt(lambda: started[0].stop() if started else early.append(None)):
        job = Job(name, request)
        started.append(job)
        for _ in early:
            job.stop()
        listed: set[str] = set()
        for event in job.events():
            for line in _job_lines(event, screen, listed, lines_of):
                screen.write_line(line)
            if isinstance(event, Failed):
                parts = filter(None, (event.what, event.expected, event.remedy))
                # A part of several lines ends with a log, which stays unchanged.
                message = " ".join(part if "\n" in part else sentence(part) for part in parts)
                message = naming_options(message, type(request))
                screen.clear()
                sys.stderr.write(f"{message}\n")
                if is_json:
                    sys.stdout.write(f"{problem_json(message)}\n")
            ending = exit_code_for(event)
            code = code if ending is None else ending
    screen.clear()
    return code


def _job_lines(
    event: Event, screen: Screen, listed: set[str], lines_of: Callable[[Forecast], list[str]]
) -> list[str]:
    """Return the lines to print for an event. listed: The paths that were printed already."""
    match event:
        case Forecast():
            return lines_of(event)
        case Phase():
            # Details of "loading" are complete sentences.
            is_sentence = event.name == "loading" and event.detail
            screen.update_status(event.detail if is_sentence else _phase_line(event))
        case Sample():
            listed.add(event.path)
            return [event.path]
        case Warned():
            return [f"warning: {event.text}"]
        case Finished():
            return [*event.summary, *(path for path in event.outputs if path not in listed)]
        case Stopped():
            return ["Stopped."]
    return []
