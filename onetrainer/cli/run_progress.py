"""Progress and result of a run in the terminal."""

import shlex
import signal
import sys
from dataclasses import dataclass
from time import sleep
from types import FrameType
from typing import TextIO

from onetrainer.cli.screen import Screen
from onetrainer.errors import EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER, UserError, sentence
from onetrainer.run.client import Run, log_tail
from onetrainer.run.commands import Command
from onetrainer.run.events import (
    Checkpoint,
    Evaluated,
    Event,
    Failed,
    Finished,
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
_BAR = 24


class Interrupts:
    """The number of requests to end this process: Ctrl+C or SIGTERM.

    They are counted instead of raised, so that none is lost while the worker starts.
    """

    def __init__(self) -> None:
        self.count = 0
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._count)

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1


def follow(run: Run, interrupts: Interrupts | None = None, *, out: TextIO = sys.stdout) -> int:
    """Show a run until its worker ends and return the exit code.

    The first interrupt stops the run, the second kills it.
    """
    follower = _Follower(run, Screen(out, out.isatty()))
    handled = 0
    while True:
        code = follower.poll()
        if code is not None:
            run.wait()
            return code
        count = interrupts.count if interrupts else 0
        if count > 1:
            run.kill()
            follower.screen.write_line("Killed. The run can be resumed from its last checkpoint.")
            return EXIT_STOPPED
        if count > handled:
            handled = count
            run.send(Command("stop"))
            follower.screen.write_line(
                "Stopping and saving after this step. Press Ctrl+C again to kill the run."
            )
        sleep(_POLL_SECONDS)


@dataclass
class _Follower:
    """Shows the events of one worker, but not those of earlier workers of the run."""

    run: Run
    screen: Screen
    is_ours: bool = False
    pid: int | None = None
    rewarded: Rewarded | None = None

    def __post_init__(self) -> None:
        self.pid = self.run.pid

    def poll(self) -> int | None:
        """Show new events; return the exit code if the worker has ended."""
        was_alive = self.run.is_alive
        news = self.run.poll()
        code: int | None = None
        for event in news.events:
            if isinstance(event, Started):
                self.is_ours = event.pid == self.pid
            if self.is_ours:
                self._show(event)
            code = exit_code_for(event)
        if self.is_ours and code is not None:
            return code
        if was_alive or not news.is_complete:
            return None
        return self._show_exit()

    def _show(self, event: Event) -> None:
        if isinstance(event, Rewarded):  # precedes the Progress of its step
            self.rewarded = event
        elif isinstance(event, Progress):
            line = _progress_line(event, self.rewarded)
            self.screen.update_status(line, always=event.step == event.total_steps)
        else:
            _show(event, self.run, self.screen)

    def _show_exit(self) -> int:
        unexpected_exit = self.run.unexpected_exit()
        code = self.run.exit_code
        log = unexpected_exit.log if unexpected_exit else log_tail(self.run.folder.log)
        if code == EXIT_USER:  # the reason is in the log, not in the events
            self.screen.write_line(log[-1] if log else "The worker could not start.")
            return EXIT_USER
        self.screen.write_line(unexpected_exit.what if unexpected_exit else "The worker ended.")
        for line in log:
            self.screen.write_line(f"  | {line}")
        self.screen.write_line(f"The log is {self.run.folder.log}")
        return EXIT_PROGRAM


def _show(event: Event, run: Run, screen: Screen) -> None:
    match event:
        case Started():
            screen.write_line(f'"{run.folder.name}" {_start_message(event)}')
        case Phase():
            count = f" {event.done}/{event.total}" if event.total else ""
            detail = f" ({event.detail})" if event.detail else ""
            if event.name != "training":
                screen.update_status(f"{event.name}{count}{detail}")
        case Sample():
            screen.write_line(f"sample after step {event.step}: {run.folder.path / event.path}")
        case Validated(weights="last"):
            screen.write_line(
                f"after step {event.step}, without EMA: validation loss {event.loss:.3g}"
            )
        case Validated():
            screen.write_line(f"after step {event.step}: {sentence(event.words)}")
        case Evaluated():
            warning = "warning: " if event.verdict == "hacking" else ""
            screen.write_line(f"{warning}after step {event.step}: {sentence(event.words)}")
        case Checkpoint():
            screen.update_status(f"checkpoint: {event.path}")
        case Warned():
            screen.write_line(f"warning: {event.text}")
        case Finished() | Stopped() | Failed():
            _show_ending(event, run, screen)


def _show_ending(event: Finished | Stopped | Failed, run: Run, screen: Screen) -> None:
    if isinstance(event, Failed):
        screen.write_line(str(UserError(event.what, event.expected, event.remedy)))
        return
    if isinstance(event, Finished):
        screen.write_line(f"Done: {event.step} steps.")
        for line in event.summary:
            screen.write_line(f"  {line}")
    else:
        word = "Paused" if event.reason == "pause" else "Stopped"
        screen.write_line(f"{word} after step {event.step}.")
        screen.write_line(f"To continue: onetrainer resume {shlex.quote(str(run.folder.path))}")
    if any(run.folder.samples.glob("*.png")):
        screen.write_line(f"Samples: {run.folder.samples}")
    if any(run.folder.rewards.glob("step-*/")):
        screen.write_line(f"Images of the validation prompts: {run.folder.rewards}")
    for path in event.outputs:
        screen.write_line(f"File: {run.folder.path / path}")


def _start_message(event: Started) -> str:
    if event.step >= event.total_steps:
        return f"has already done all {event.total_steps} steps"
    start = f"continues after step {event.step}" if event.step else "starts"
    return f"{start}: {event.total_steps} steps in total"


def _progress_line(event: Progress, rewarded: Rewarded | None) -> str:
    """Return the progress bar. rewarded: The last step with rewards; None if there was none."""
    done = event.step / event.total_steps
    filled = round(done * _BAR)
    bar = "█" * filled + "░" * (_BAR - filled)
    eta = f"  ETA {clock(event.eta_seconds)}" if event.eta_seconds >= 0 else ""
    trained = f"loss {event.loss:.4f}"
    if rewarded is not None and rewarded.step == event.step:
        trained = f"reward {rewarded.reward:.3f} ± {rewarded.spread:.3f}"
    return (
        f"step {event.step}/{event.total_steps} {bar} {done:4.0%}  {trained}"
        f"  {event.steps_per_second:.2f} it/s{eta}  {event.memory_bytes / 2**30:.1f} GiB"
    )


def clock(seconds: float) -> str:
    """Format seconds as h:mm:ss, or m:ss below one hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
