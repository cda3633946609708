"""The commands `train` and `resume`, and what they show of a run."""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import TextIO

from onetrainer.cli.configs import startable
from onetrainer.cli.screen import Screen, on_interrupt, phase_text, print_lines
from onetrainer.errors import EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER, UserError, sentence
from onetrainer.presets import presets
from onetrainer.run import client
from onetrainer.run.client import Run, log_tail
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
from onetrainer.run.run_folder import create_run, fill_run, open_run

_POLL_SECONDS = 0.1
_BAR = 24


def train(options: argparse.Namespace) -> int:
    """Resolve and check a config, then train it to the end in a worker."""
    document = presets.load(options.config, options.set)
    own = options.run_folder
    if own is not None:
        # Check the folder that is really used, which also is the parent of the cache.
        document = presets.with_value(document, "output.folder", str(own.absolute().parent))
    config = startable(document, source=options.config)
    values = config.model_dump(mode="json")
    if own is not None:
        folder = fill_run(own, config=values)
    else:
        folder = create_run(Path(config.output.folder), name=config.output.name, config=values)
    print_lines([f"Run folder: {folder.path}"])
    return follow(lambda: client.start(folder))


def resume(options: argparse.Namespace) -> int:
    """Resume a run from its newest checkpoint, or follow it if it is running."""
    folder = open_run(options.run_folder)
    if folder.is_busy():
        print_lines([f"{folder.name} is already being trained; following it."])
        return follow(lambda: client.attach(folder))
    return follow(lambda: client.start(folder))


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
                    self._screen.update_status(phase_text(event))
            case Rewarded():  # precedes the Progress of its step
                self._rewarded = event
            case Progress():
                line = _progress_line(event, self._rewarded)
                self._screen.update_status(line, always=event.step == event.total_steps)
            case Sample():
                write_line(f"sample after step {event.step}: {folder.path / event.path}")
            case Validated(weights="without_ema"):
                loss = f"validation loss {event.loss:.3g}"
                write_line(f"after step {event.step}, without EMA: {loss}")
            case Validated() | Evaluated():
                warning = "warning: " if event.verdict == "hacking" else ""
                write_line(f"{warning}after step {event.step}: {sentence(event.message)}")
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
            outcome = "Paused" if event.reason == "pause" else "Stopped"
            write_line(f"{outcome} after step {event.step}.")
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
