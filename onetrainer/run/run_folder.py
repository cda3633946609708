"""One run's folder: its paths, and the lock of its worker."""

import json
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetrainer import program
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import is_inside, open_inside, require_no_link, require_own_files
from onetrainer.files.locks import locked, try_lock, unlock
from onetrainer.files.names import require_portable
from onetrainer.json_file import read_json

if TYPE_CHECKING:
    from onetrainer.run.worker_mark import WorkerMark

STATE_FILE = "state.json"
_MOST_RUNS = 100_000
_LOCK_WAIT = 0.3  # seconds
# What was expected of a folder and what to do, by the kind of failure.
_WRITING = {
    "disk full": ("Expected free disk space", "Free some space"),
    "permission": ("Expected a folder that this user may write to", "Correct its permissions"),
    "disk error": ("Expected a disk without errors", "Check the disk and its cable"),
    "": ("Expected a folder that can be written to", "Correct its path"),
}
_REMEDIES = {
    "disk full": "Free some space.",
    "permission": "Correct its permissions, or choose another.",
    "file missing": "Check the path.",
    "disk error": "Check the disk and its cable.",
    "host memory": "Close other programs.",
}


class RunFolder:
    """The paths of a run. The folder is the only record of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.config = self.path / "config.json"
        self.events = self.path / "events.jsonl"
        self.commands = self.path / "commands.jsonl"
        self.log = self.path / "worker.log"
        self.samples = self.path / "samples"
        self.validation = self.path / "validation"
        self.rewards = self.path / "rewards"
        self.checkpoints = self.path / "checkpoints"
        self.output = self.path / "output"
        self.retries = self.path / "retries.json"
        self.lengths = self.path / "lengths.json"
        self.exports = self.path / "exports.json"
        self.notes = self.path / "notes.json"
        self.exported = self.path / "exported"
        self.starred = self.path / "starred.json"
        self.start_files = self.path / "start"
        self.lock = self.path / "lock"

    @property
    def name(self) -> str:
        """The run's name, which is that of its folder."""
        return self.path.name

    def log_of(self, rank: int) -> Path:
        """Return the log of one of the run's processes; the first one's is the worker's."""
        return self.path / f"worker-{rank}.log" if rank else self.log

    def next_exported(self, name: str, suffix: str) -> Path:
        """Return the path of a new file for a person, in a folder that is made: "charts-001.png".

        Raises UserError if the folder cannot be made.
        """
        try:
            require_no_link(self.exported)
            self.exported.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.exported, error) from error
        paths = (self.exported / f"{name}-{n:03d}{suffix}" for n in range(1, _MOST_RUNS))
        return next(path for path in paths if not path.exists())

    def without_writing(self, scratch: Path) -> "RunFolder":
        """Return the folder for a process that only reads: what it would write is elsewhere.

        scratch: A folder that need not exist.
        """
        folder = RunFolder(self.path)
        folder.samples, folder.output = scratch / "samples", scratch / "output"
        folder.validation, folder.rewards = scratch / "validation", scratch / "rewards"
        return folder

    def is_run(self) -> bool:
        """Return whether a run was started here; not if this may not be looked up."""
        return is_inside(self.config) and is_inside(self.events)

    def checkpoint(self, step: int) -> Path:
        """Return the path for the checkpoint of a step."""
        return self.checkpoints / f"step-{step:06d}"

    def complete_checkpoints(self) -> list[tuple[int, Path]]:
        """Return the steps and paths of checkpoints that can be resumed from, oldest first.

        A checkpoint is complete once its state file exists.
        """
        checkpoints = []
        for path in self.checkpoints.glob("step-*"):
            number = path.name.removeprefix("step-")
            if number.isdecimal() and is_inside(path / STATE_FILE):
                checkpoints.append((int(number), path))
        return sorted(checkpoints)

    def newest_step(self) -> int:
        """Return the step that the run can be resumed from; 0 if it has no checkpoint."""
        return max((step for step, _ in self.complete_checkpoints()), default=0)

    def resume_place(self) -> str:
        """Return the same as text: "step 50", or "the beginning"."""
        step = self.newest_step()
        return f"step {step:,}" if step else "the beginning"

    def lost_text(self) -> str:
        """Return what is lost without saving: "what was trained since step 50"."""
        step = self.newest_step()
        return f"what was trained since step {step:,}" if step else "all training so far"

    def is_busy(self) -> bool:
        """Return whether a worker is running in this folder."""
        try:
            with open_inside(self.lock) as handle:
                if not try_lock(handle, shared=True):
                    return True
                unlock(handle)
        except OSError:
            return False
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other workers; the system unlocks it when the process ends.

        Raises UserError if another worker holds the lock.
        """
        from onetrainer.run.worker_mark import own_mark

        with ExitStack() as stack:
            try:
                # A window that asks `is_busy` holds the lock for a moment; that is no worker.
                handle = stack.enter_context(locked(self.lock, wait=_LOCK_WAIT))
            except BlockingIOError as error:
                raise busy(self.path) from error
            except OSError as error:
                raise cannot_write(self.path, error) from error
            # After the first byte, which on Windows cannot be read while it is locked.
            handle.seek(1)
            handle.write(own_mark().encode().encode())
            handle.truncate()
            handle.flush()
            handle.seek(0)
            yield

    def worker_pid(self) -> int | None:
        """Return the id of the process running in this folder; None if none does on this computer.

        A number of another computer or container would mean any process here.
        """
        mark = self.last_worker() if self.is_busy() else None
        return mark.pid if mark and mark.host in ("", platform.node()) else None

    def last_worker(self) -> "WorkerMark | None":
        """Return what the lock tells of the worker that runs here, or was the last one."""
        from onetrainer.run.worker_mark import read_mark

        try:
            with open_inside(self.lock) as handle:
                handle.seek(1)
                return read_mark(handle.read().decode(errors="replace"))
        except OSError:
            return None


def create_run(parent: Path, *, name: str, config: dict[str, Any]) -> RunFolder:
    """Create a run folder NAME-NNN under `parent` with the resolved config."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MOST_RUNS):
            path = parent / f"{name}-{number:03d}"
            if path.exists():
                continue
            return fill_run(path, config=config)
    except OSError as error:
        raise cannot_write(parent, error) from error
    raise UserError(f"{parent}: all run numbers are used", "", "Choose another runs folder.")


def fill_run(path: Path, *, config: dict[str, Any]) -> RunFolder:
    """Create a run folder at a path and write the resolved config into it.

    Raises UserError if the folder is not empty.
    """
    require_portable(path)
    folder = RunFolder(path)
    created: list[Path] = []
    try:
        if not path.exists():
            path.mkdir(parents=True)
            created.append(path)
        if any(path.iterdir()):
            raise UserError(
                f"{path}: this folder is not empty",
                "Expected a new folder for the run",
                f"Choose another one, or continue its run with: {program()} resume {path}",
            )
        for subfolder in (folder.samples, folder.checkpoints, folder.output):
            subfolder.mkdir()
            created.append(subfolder)
        write_atomic(folder.config, (json.dumps(config, indent=2) + "\n").encode())
    except OSError as error:
        for subfolder in reversed(created):
            with suppress(OSError):
                subfolder.rmdir()
        raise cannot_write(path, error) from error
    return folder


def open_run(path: Path, *, may_be_job: bool = False) -> RunFolder:
    """Return the run folder at a path, whoever made it. may_be_job: See `is_job`.

    Raises UserError if it is none, or has in it what is not of a run, such as a link.
    """
    folder = RunFolder(path)
    if not is_inside(folder.config):
        what = (
            "this folder does not exist" if not path.is_dir() else "this folder has no config.json"
        )
        raise UserError(
            f"{path}: {what}", "Expected the folder of a run", "Check the path; runs are in runs/."
        )
    require_own(folder, may_be_job=may_be_job)
    return folder


def require_own(folder: RunFolder, *, may_be_job: bool = False) -> None:
    """Check that a run's folder is one, whoever made it; once its worker runs, that has done so.

    Raises UserError if there is a link, a pipe or a device in it, or the config of a job.
    """
    if folder.is_busy():
        return
    require_own_files(folder.path)
    if may_be_job:
        return
    try:
        is_job = "job" in read_json(folder.config)
    except UserError:  # which the run itself reports
        return
    if is_job:
        raise UserError(
            f"{folder.config}: these are not the settings of a run, but the request of a job",
            "Expected the folder of a run; no job is taken from a folder",
            "Jobs begin with the commands or pages that ask for them",
        )


def busy(path: Path) -> UserError:
    """Return the error for a run folder in which a worker is running."""
    return UserError(
        f"{path}: another process is training in this run folder",
        "One run has one worker at a time",
        "Wait until it ends, or stop it first.",
    )


def cannot_write(path: Path, error: OSError, option: str = "output.folder") -> UserError:
    """Return the error for a path that cannot be written. option: What chooses its folder."""
    # Late, as reading of a run's paths needs neither failures nor the events that tell of them.
    from onetrainer.run.failures import recognize

    if _is_elsewhere(error.filename, path):  # such as a file that was to be copied
        return system_error(error)
    expected, remedy = _WRITING.get(recognize(error), _WRITING[""])
    return UserError(
        f"{path}: cannot write here ({_reason(error)})",
        expected,
        f"{remedy} or choose another folder ({option}).",
    )


def system_error(error: OSError) -> UserError:
    """Return the error for whatever the system refused, with the file if there is one."""
    from onetrainer.run.failures import recognize

    place = f"{error.filename}: " if isinstance(error.filename, str | Path) else ""
    remedy = _REMEDIES.get(recognize(error), "Check the path." if place else "")
    return UserError(f"{place}{_reason(error)}", "", remedy)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


def _is_elsewhere(filename: object, path: Path) -> bool:
    """Return whether a file is neither a path, in it or beside it, nor a folder that it is in."""
    if not isinstance(filename, str | Path):
        return False
    path, place = path.absolute(), Path(filename).absolute()
    is_around = path in (place, *place.parents) or place in path.parents
    return not is_around and place.parent != path.parent
