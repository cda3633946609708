"""What the terminal shows of a run, and how Ctrl+C ends it."""

import shlex
import signal
import sys
from collections.abc import Callable
from time import monotonic, sleep
from typing import TextIO

from onetrainer import program
from onetrainer.cli.screen import Screen, on_interrupt, phase_text
from onetrainer.errors import EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER, UserError, sentence
from onetrainer.run.client import Run, log_tail
from onetrainer.run.commands import SILENCE, Leaving
from onetrainer.run.events import (
    BrokenStep,
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
from onetrainer.run.run_folder import RunFolder

_POLL_SECONDS = 0.1
_BAR = 24
_LEAVING: dict[Leaving, str] = {
    "stop": "Stopping after this step, then saving.",
    "pause": "Pausing after this step.",
    "discard": "Stopping after this step without saving, unless saving has begun.",
}
_NEXT: dict[Leaving, str] = {
    "stop": "Press Ctrl+C again to stop without saving.",
    "pause": "Press Ctrl+C to stop without saving.",
    "discard": "Press Ctrl+C again to end the process at once.",
}
_GOES_ON: dict[Leaving, str] = {
    "stop": "stopping",
    "pause": "pausing",
    "discard": "stopping without saving",
}


def follow(
    start: Callable[[], Run], *, leaving: Leaving | None = None, out: TextIO | None = None
) -> int:
    """Start or attach to a run, show it until its worker ends and return the exit code.

    Ctrl+C stops the run and saves, a second one stops it without saving, a third one ends the
    process; SIGTERM pauses the run. None is lost while the worker starts. Where `leaving` is sent,
    either signal only ends this command.

    Args:
        start: Returns the run.
        leaving: Sent at once to a run that another process has started.
        out: Standard output if None.
    """
    screen = Screen(out or sys.stdout)
    signals: list[int] = []
    with on_interrupt(signals.append):
        follower = _Follower(start(), screen, is_known=leaving is not None)
        departure = _Departure(follower, screen, sent=leaving)
        while (code := follower.poll()) is None:
            while signals:
                if departure.take(signals.pop(0)):
                    return EXIT_STOPPED
            departure.offer_after_silence()
            sleep(_POLL_SECONDS)
        follower.run.wait()
        return code


def resume_command(folder: RunFolder) -> str:
    """Return the command that continues a run."""
    return f"{program()} resume {_quoted(folder)}"


def _quoted(folder: RunFolder) -> str:
    return shlex.quote(str(folder.path))


def ended_text(folder: RunFolder) -> str:
    """Return a sentence about a worker that was killed."""
    return f"The process was ended. {_resume_text(folder)}"


def _resume_text(folder: RunFolder) -> str:
    """Return how a run that has lost its last steps can be continued, and from where."""
    return f"To continue from {folder.resume_place()}: {resume_command(folder)}"


class _Departure:
    """Passes on that the run is to end, more firmly each time.

    sent: The only command to send, at once; signals then end no more than this program.
    """

    def __init__(self, follower: "_Follower", screen: Screen, *, sent: Leaving | None) -> None:
        self._follower, self._screen, self._sent = follower, screen, sent
        self._asked: Leaving | None = None
        self._asked_at = 0.0
        self._is_offered = False
        if sent is not None:
            self.ask(sent)

    def ask(self, leaving: Leaving) -> None:
        """Send a command after which the run ends, and say what it does."""
        self._asked, self._asked_at = leaving, monotonic()
        self._follower.run.send(leaving)
        then = _NEXT[leaving] if self._sent is None else "Ctrl+C only ends this command."
        self._screen.write_line(f"{_LEAVING[leaving]} {then}")

    def take(self, number: int) -> bool:
        """Obey a signal; return whether nothing is left to follow."""
        if self._sent is not None:
            self._screen.write_line(f"The run goes on {_GOES_ON[self._sent]}.")
            return True
        if number == signal.SIGTERM:
            if self._asked is None:
                self.ask("pause")
            return False
        if self._asked is None:
            self.ask("stop")
        elif self._asked != "discard" and not self._is_offered:
            self.ask("discard")
        else:
            self._follower.run.kill()
            self._screen.write_line(ended_text(self._follower.run.folder))
            return True
        return False

    def offer_after_silence(self) -> None:
        """Offer once to end a process that has not answered for a while."""
        since = max(self._asked_at, self._follower.last_event_at)
        if self._asked is None or self._is_offered or monotonic() - since < SILENCE:
            return
        self._is_offered = True
        folder = self._follower.run.folder
        end = "Press Ctrl+C to end its process at once"
        if self._sent is not None:
            end = f"To end its process at once: {program()} stop {_quoted(folder)} --now"
        self._screen.write_line(
            f"The worker has not answered for {SILENCE:.0f} s. {end}; {folder.lost_text()} is lost."
        )


class _Follower:
    """Shows the events of one worker, but not those of earlier workers of the run.

    is_known: Whether the worker has started before, so that its events are shown from now on.
    """

    def __init__(self, run: Run, screen: Screen, *, is_known: bool = False) -> None:
        self.run = run
        self.last_event_at = monotonic()
        self._screen = screen
        self._pid = run.pid
        self._is_ours = is_known
        self._rewarded: Rewarded | None = None

    def poll(self) -> int | None:
        """Show new events; return the exit code if the worker has ended."""
        was_alive = self.run.is_alive
        news = self.run.poll()
        code: int | None = None
        if news.events:
            self.last_event_at = monotonic()
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
                    self._screen.update_status(phase_text(event), always=event.name == "waiting")
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
            case BrokenStep(message=text) | Warned(text=text):
                write_line(f"warning: {text}")
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
            is_lost = event.reason == "discard"
            how = " without saving" if is_lost else ""
            because = f": {event.because}" if event.because else ""
            if event.step:
                write_line(sentence(f"{outcome} after step {event.step}{how}{because}"))
            else:
                untrained = "nothing was trained yet, so nothing was saved"
                write_line(sentence(f"{outcome} before the first step{because}; {untrained}"))
            write_line(
                _resume_text(folder)
                if is_lost or not event.step
                else f"To continue: {resume_command(folder)}"
            )
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
        if unexpected_exit and not self.run.folder.config.exists():  # nor is there a log
            write_line(unexpected_exit.what)
            return EXIT_USER
        if self.run.exit_code == EXIT_USER:  # the reason is in the log, not in the events
            write_line(log[-1] if log else "The worker could not start.")
            return EXIT_USER
        write_line(unexpected_exit.what if unexpected_exit else "The worker ended.")
        for line in log:
            write_line(f"  | {line}")
        write_line(f"The log is {self.run.folder.log}")
        return EXIT_PROGRAM


def _start_message(event: Started) -> str:
    if not event.total_steps:
        return "starts: its number of steps follows from the images or the speed"
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
        f"  {trained}  {event.steps_per_second:.2f} it/s{eta}  {event.memory_bytes / 2**30:.1f} GB"
    )


def _clock(seconds: float) -> str:
    """Format seconds as h:mm:ss, or m:ss below one hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
