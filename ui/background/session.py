"""The run that the window shows: start it, follow it, send commands, and detect its end."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import with_absolute_paths
from onetrainer.run.commands import SILENCE, CommandName, Leaving
from onetrainer.run.run_folder import RunFolder, create_run, open_run

if TYPE_CHECKING:
    from onetrainer.run.client import Run
    from onetrainer.run.event_log import News
    from ui.background.worker_exit import WorkerExitSearch
    from ui.progress.run_state import RunState
    from ui.progress.stall import Stall

SILENT_AFTER = 60.0
_LEAVING: Mapping[Leaving, str] = {"pause": "Pausing", "stop": "Stopping", "discard": "Stopping"}


class PendingCommand(NamedTuple):
    """Command to end that the worker has not carried out yet. at: on the monotonic clock."""

    name: Leaving
    at: float


class Session:
    """Follows one run at a time without blocking.

    What a run can report is imported with the first one, to keep the start of the window fast.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.run: Run | None = None
        self._state: RunState | None = None
        self.pending_command: PendingCommand | None = None
        self.generation = 0
        self._clock = clock
        self._last_event_at = 0.0
        self._is_finished = True
        self._is_replay = False
        self._replayed: RunState | None = None
        self._exit_search: WorkerExitSearch | None = None

    @property
    def state(self) -> "RunState":
        """What the displayed run has reported."""
        self._state = self._state or _nothing_reported()
        return self._state

    @property
    def is_running(self) -> bool:
        """Whether a worker is running; one that has reported its end only cleans up."""
        return self.has_worker and not self._is_replay and self.state.ending is None

    @property
    def has_worker(self) -> bool:
        """Whether the worker's process exists, or not all of its events were read."""
        return self.run is not None and not self._is_finished

    @property
    def can_resume(self) -> bool:
        """Whether the displayed run has steps left and no worker."""
        if self.run is None or self.has_worker:
            return False
        return self.state.status != "finished" or self.state.is_early_end

    @property
    def folder(self) -> RunFolder | None:
        """Folder of the displayed run; None if there is none."""
        return self.run.folder if self.run else None

    def start(self, config: TrainConfig) -> None:
        """Start a new run with a copy of the config.

        Raises:
            UserError: If it cannot be started.
        """
        whole = with_absolute_paths(config)
        parent = Path(whole.output.folder)
        folder = create_run(parent, name=whole.output.name, config=whole.model_dump(mode="json"))
        self.start_in(folder)

    def start_in(self, folder: RunFolder) -> None:
        """Start a run whose folder is made. Raises UserError if it cannot be started."""
        from onetrainer.run import client

        self._follow(client.start(folder))

    def resume(self) -> None:
        """Resume the displayed run.

        Raises:
            UserError: If it cannot be resumed.
        """
        from onetrainer.run import client

        if self.run is None or self.has_worker:
            return
        self._follow(client.start(open_run(self.run.folder.path)), is_resumed=True)

    def attach(self, path: Path) -> None:
        """Show a run that is running or has ended.

        Raises:
            UserError: If there is no run in the folder.
        """
        from onetrainer.run import client

        self._follow(client.attach(open_run(path)))

    def leave(self) -> None:
        """Show no run, since that of before is gone."""
        self.run, self.pending_command, self._is_finished = None, None, True
        self._show(_nothing_reported())

    def send(self, name: CommandName) -> None:
        """Send a command to the worker.

        Raises:
            UserError: If the run's folder cannot be written to.
        """
        if self.run is None or not self.is_running:
            return
        self.run.send(name)
        if name != "save" and name != "sample" and name != "cancel":
            self.pending_command = PendingCommand(name, self._clock())

    def kill(self) -> None:
        """Kill the worker, also one that another window has started."""
        if self.run is not None and self.is_running:
            self.run.kill()

    @property
    def can_kill(self) -> bool:
        """Whether the worker that is to end has been silent for long."""
        if not self.is_running or self.pending_command is None:
            return False
        return self._clock() - max(self.pending_command.at, self._last_event_at) >= SILENCE

    @property
    def activity(self) -> str:
        """What the run is doing, in a few words: "Loading the model · quantizing"."""
        from ui.progress.run_state import phase_text

        state, folder = self.state, self.folder
        if self.pending_command is not None:
            return _LEAVING[self.pending_command.name]
        if state.status == "running" and state.phase is not None:
            return phase_text(state.phase)
        # The worker writes nothing before it knows what it continues from.
        if state.status == "starting" and folder is not None and (step := folder.newest_step()):
            return f"Starting · verifying the checkpoint of step {step:,}"
        return state.status_text()

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last event of a running worker; 0 while that is usual."""
        quiet = self._clock() - self._last_event_at
        return quiet if self.is_running and quiet > SILENT_AFTER else 0.0

    @property
    def stall(self) -> "Stall | None":
        """The stall of a run that trains but makes no steps; None otherwise."""
        from ui.progress.stall import stall_of

        if not self.is_running or self.pending_command is not None:
            return None
        return stall_of(self.state, self._clock() - self._last_event_at)

    def poll(self) -> bool:
        """Read news of the run and return whether there are any. Terminal events come last."""
        if self.run is None or self._is_finished:
            return False
        # Checked before reading: the last events of a worker that ends now are read next time.
        is_alive = self.run.is_alive
        news = self.run.poll()
        self._apply(news)
        if self.state.ending is not None:
            self.pending_command = None
        if news.events or news.restarted:
            self._last_event_at = self._clock()
            return True
        return False if is_alive else self._finish(self.run)

    def _apply(self, news: "News") -> None:
        if news.restarted:
            if self._replayed is None:
                self._show(_nothing_reported())
            else:
                self._replayed = _nothing_reported()
        state = self._replayed or self.state
        for event in news.events:
            state.apply(event)
        if self._replayed is not None and news.events and news.is_complete:
            self._show(self._replayed)

    def _show(self, state: "RunState") -> None:
        self._state = state
        self._replayed = None
        self.generation += 1

    def _finish(self, run: "Run") -> bool:
        """Finish the run, whose worker has ended and whose events were read, once it is clear how.

        Returns whether it is.
        """
        from ui.background.worker_exit import WorkerExitSearch
        from ui.progress.worker_log import worker_log_tail

        if self._exit_search is None or self._exit_search.run is not run:
            self._exit_search = WorkerExitSearch(run)
        if not self._exit_search.is_done:
            return False
        unexpected_exit, self._exit_search = self._exit_search.found, None
        self._is_finished = True
        self.pending_command = None
        if self._replayed is not None and self._replayed.started is not None:
            self._show(self._replayed)
        self.state.unexpected_exit = (
            replace(unexpected_exit, log=worker_log_tail(run.folder.log))
            if unexpected_exit
            else None
        )
        return True

    def _follow(self, run: "Run", *, is_resumed: bool = False) -> None:
        self.run = run
        if is_resumed:
            # The known state stays visible until the history of the new worker was read, which
            # takes seconds to begin and, for a long run, many ticks to read.
            self._state = replace(
                self.state, started=None, phase=None, ending=None, unexpected_exit=None
            )
            self._replayed = _nothing_reported()
        else:
            self._show(_nothing_reported())
        self.pending_command = None
        self._last_event_at = self._clock()
        self._is_finished, self._exit_search = False, None
        # A run that had already ended is only read, which may take several ticks.
        self._is_replay = not run.is_alive


def _nothing_reported() -> "RunState":
    from ui.progress.run_state import RunState

    return RunState()
