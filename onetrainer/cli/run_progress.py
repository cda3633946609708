"""A run in the terminal: one line that moves, and at the end what came of it."""

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
    """How often somebody has asked this process to end: Ctrl+C, or SIGTERM.

    Counted and not raised, so that none is lost between the start of a worker and its following.
    """

    def __init__(self) -> None:
        self.count = 0
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1


def follow(run: Run, interrupts: Interrupts | None = None, *, out: TextIO = sys.stdout) -> int:
    """Shows a run until its worker ends; returns the exit code.

    The first interrupt asks it to stop, the second kills it.
    """
    follower = _Follower(run, Screen(out, out.isatty()))
    obeyed = 0
    while True:
        code = follower.look()
        if code is not None:
            run.wait()
            return code
        asked = interrupts.count if interrupts else 0
        if asked > 1:
            run.kill()
            follower.screen.stay("Killed. The run can be resumed from its last checkpoint.")
            return EXIT_STOPPED
        if asked > obeyed:
            obeyed = asked
            run.send(Command("stop"))
            follower.screen.stay("Stopping after this step and saving; Ctrl+C again kills the run.")
        sleep(_POLL_SECONDS)


@dataclass
class _Follower:
    """Shows what one worker tells; what earlier workers of the run have told stays untold."""

    run: Run
    screen: Screen
    is_ours: bool = False
    pid: int | None = None
    rewarded: Rewarded | None = None

    def __post_init__(self) -> None:
        self.pid = self.run.pid

    def look(self) -> int | None:
        """Shows what is new; the exit code if the worker has ended."""
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
        return self._died()

    def _show(self, event: Event) -> None:
        match event:
            case Rewarded():  # told just before its step
                self.rewarded = event
            case Progress():
                line = _progress_line(event, self.rewarded)
                self.screen.move(line, always=event.step == event.total_steps)
            case _:
                _show(event, self.run, self.screen)

    def _died(self) -> int:
        unexpected_exit = self.run.unexpected_exit()
        code = self.run.exit_code
        log = unexpected_exit.log if unexpected_exit else log_tail(self.run.folder.log)
        if code == EXIT_USER:  # it has said why, but not where events are written
            self.screen.stay(log[-1] if log else "The worker could not begin.")
            return EXIT_USER
        self.screen.stay(unexpected_exit.what if unexpected_exit else "The worker ended.")
        for line in log:
            self.screen.stay(f"  | {line}")
        self.screen.stay(f"The log is {self.run.folder.log}")
        return EXIT_PROGRAM


def _show(event: Event, run: Run, screen: Screen) -> None:
    match event:
        case Started():
            screen.stay(f'"{run.folder.name}" {_beginning(event)}')
        case Phase():
            count = f" {event.done}/{event.total}" if event.total else ""
            detail = f" ({event.detail})" if event.detail else ""
            if event.name != "training":
                screen.move(f"{event.name}{count}{detail}")
        case Sample():
            screen.stay(f"sample after step {event.step}: {run.folder.path / event.path}")
        case Validated():
            screen.stay(_validation_line(event))
        case Evaluated():
            screen.stay(_look_line(event))
        case Checkpoint():
            screen.move(f"checkpoint: {event.path}")
        case Warned():
            screen.stay(f"warning: {event.text}")
        case Finished() | Stopped() | Failed():
            _show_ending(event, run, screen)


def _show_ending(event: Finished | Stopped | Failed, run: Run, screen: Screen) -> None:
    if isinstance(event, Failed):
        screen.stay(str(UserError(event.what, event.expected, event.remedy)))
        return
    if isinstance(event, Finished):
        screen.stay(f"Done: {event.step} steps.")
        for line in event.summary:
            screen.stay(f"  {line}")
    else:
        word = "Paused" if event.reason == "pause" else "Stopped"
        screen.stay(f"{word} after step {event.step}.")
        screen.stay(f"To go on: onetrainer resume {shlex.quote(str(run.folder.path))}")
    if any(run.folder.samples.glob("*.png")):
        screen.stay(f"Samples: {run.folder.samples}")
    if any(run.folder.rewards.glob("step-*/")):
        screen.stay(f"Pictures of held-out prompts: {run.folder.rewards}")
    for path in event.outputs:
        screen.stay(f"File: {run.folder.path / path}")


def _beginning(event: Started) -> str:
    if event.step >= event.total_steps:
        return f"has made all of its {event.total_steps} steps already"
    begins = f"continues after step {event.step}" if event.step else "starts"
    return f"{begins}: {event.total_steps} steps in all"


def _validation_line(event: Validated) -> str:
    """The step, and what its held-out loss amounts to; the words name the loss."""
    if event.weights == "last":
        return f"after step {event.step}, without the average: held-out loss {event.loss:.3g}"
    return f"after step {event.step}: {sentence(event.words)}"


def _look_line(event: Evaluated) -> str:
    """The step, and what its pictures of held-out prompts amount to."""
    warning = "warning: " if event.verdict == "hacking" else ""
    return f"{warning}after step {event.step}: {sentence(event.words)}"


def _progress_line(event: Progress, rewarded: Rewarded | None) -> str:
    """How far the run is. rewarded: the last step's that had rewards; None if none had."""
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
    """Seconds as h:mm:ss, or m:ss under an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
