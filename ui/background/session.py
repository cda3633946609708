"""The run that the window shows: start, follow, command, and learn of its end. No Tk."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import with_absolute_paths
from onetrainer.run import client
from onetrainer.run.client import Run
from onetrainer.run.commands import Command, CommandName
from onetrainer.run.event_log import News
from onetrainer.run.run_folder import RunFolder, create_run, open_run
from ui.progress.run_state import RunState
from ui.progress.worker_log import worker_log_tail

KILL_AFTER = 10.0
SILENT_AFTER = 60.0


@dataclass(frozen=True)
class PendingCommand:
    """A request that the worker has not carried out yet. at: seconds of the monotonic clock."""

    name: CommandName
    at: float


class Session:
    """One run at a time. Nothing here waits, and nothing here asks anybody anything."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.run: Run | None = None
        self.state = RunState()
        self.pending_command: PendingCommand | None = None
        self.generation = 0
        self._clock = clock
        self._last_event_at = 0.0
        self._is_finished = True
        self._is_replay = False
        self._replayed: RunState | None = None

    @property
    def is_running(self) -> bool:
        """Whether a worker is at work; one that has said its last word only tidies up."""
        return self.has_worker and not self._is_replay and self.state.ending is None

    @property
    def has_worker(self) -> bool:
        """Whether the worker's process is there still, or not all is read of what it said."""
        return self.run is not None and not self._is_finished

    @property
    def folder(self) -> RunFolder | None:
        """The folder of the run that is shown; None if none is."""
        return self.run.folder if self.run else None

    def start(self, config: TrainConfig) -> None:
        """Starts a new run with a copy of the config. Raises UserError if it cannot."""
        whole = with_absolute_paths(config)
        parent = Path(whole.output.folder)
        folder = create_run(parent, name=whole.output.name, config=whole.model_dump(mode="json"))
        self._follow(client.start(folder))

    def resume(self) -> None:
        """Takes the shown run up again where it ended. Raises UserError if it cannot."""
        if self.run is None or self.has_worker:
            return
        self._follow(client.start(open_run(self.run.folder.path)), is_resumed=True)

    def attach(self, path: Path) -> None:
        """Shows a run that is at work, or has ended. Raises UserError if there is none."""
        self._follow(client.attach(open_run(path)))

    def send(self, name: CommandName) -> None:
        """Asks the worker for something. Raises UserError if the folder cannot be written to."""
        if self.run is None or not self.is_running:
            return
        self.run.send(Command(name))
        if name in ("stop", "pause"):
            self.pending_command = PendingCommand(name, self._clock())

    def kill(self) -> None:
        """Ends the worker at once, also one that another window has started."""
        if self.run is not None and self.is_running:
            self.run.kill()

    @property
    def can_kill(self) -> bool:
        """Whether the worker has been asked to end and takes long over it."""
        return (
            self.is_running
            and self.pending_command is not None
            and self._clock() - self.pending_command.at >= KILL_AFTER
        )

    @property
    def silent_seconds(self) -> float:
        """For how long nothing has been heard of a worker at work; 0 while that is usual."""
        quiet = self._clock() - self._last_event_at
        return quiet if self.is_running and quiet > SILENT_AFTER else 0.0

    def poll(self) -> bool:
        """Takes in what has happened; whether anything has. Terminal events come last."""
        if self.run is None or self._is_finished:
            return False
        # Asked before reading: of a worker that ended in between, the last words come next time.
        is_alive = self.run.is_alive
        news = self.run.poll()
        self._apply(news)
        if self.state.ending is not None:
            self.pending_command = None
        if news.events or news.restarted:
            self._last_event_at = self._clock()
            return True
        return self._finish(self.run) if not is_alive else False

    def _apply(self, news: News) -> None:
        if news.restarted:
            if self._replayed is None:
                self._show(RunState())
            else:
                self._replayed = RunState()
        state = self._replayed or self.state
        for event in news.events:
            state.apply(event)
        if self._replayed is not None and news.events and news.is_complete:
            self._show(self._replayed)

    def _show(self, state: RunState) -> None:
        self.state = state
        self._replayed = None
        self.generation += 1

    def _finish(self, run: Run) -> bool:
        """The worker is gone and everything it said has been read."""
        self._is_finished = True
        self.pending_command = None
        if self._replayed is not None and self._replayed.started is not None:
            self._show(self._replayed)
        unexpected_exit = run.unexpected_exit()
        self.state.unexpected_exit = (
            replace(unexpected_exit, log=worker_log_tail(run.folder.log))
            if unexpected_exit
            else None
        )
        return True

    def _follow(self, run: Run, *, is_resumed: bool = False) -> None:
        self.run = run
        if is_resumed:
            # What is known stays on the screen until the new worker has told its history, which
            # takes seconds to begin and, for a long run, many turns to read.
            self.state = replace(
                self.state, started=None, phase=None, ending=None, unexpected_exit=None
            )
            self._replayed = RunState()
        else:
            self._show(RunState())
        self.pending_command = None
        self._last_event_at = self._clock()
        self._is_finished = False
        # A run that had ended before it was shown is only read, which may take some turns.
        self._is_replay = not run.is_alive
