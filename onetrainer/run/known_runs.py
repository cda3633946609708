"""All runs of some folders. What was read of them is kept: a window lists thousands at once.

Everything in the file can be read again from the runs themselves, so no failure of it is an error.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from onetrainer.files.own_json import parse_json, typed
from onetrainer.run.events import Validated
from onetrainer.run.history import RunSummary, run_folders
from onetrainer.run.own_notes import OwnNotes
from onetrainer.run.record import RunRecord, read_record, version_of
from onetrainer.run.user_folder import user_folder
from onetrainer.run.wire import decode_event, encode_event

_FORMAT = 2
_TABLE = "CREATE TABLE IF NOT EXISTS runs (path BLOB PRIMARY KEY, facts TEXT, config BLOB)"
_AT_ONCE, _REPORT_EVERY = 200, 50

Progress = Callable[[int, int], object]
"""Called with how many runs are read, and of how many."""


def find_runs(
    *parents: Path,
    known: Mapping[Path, RunRecord],
    progress: Progress = lambda *_: None,
    file: Path | None = None,
) -> list[RunRecord]:
    """Return all runs in some folders, the one that began last first.

    known: Records read before; those whose files are still the same are not read again. file: Where
    they are kept for the next window; by default in the user's folder.
    """
    folders = run_folders(*parents)
    kept = _Kept(file or user_folder() / "runs.sqlite")
    known = known or kept.read()
    found: list[RunRecord] = []
    new: list[RunRecord] = []
    for number, folder in enumerate(folders):
        if number % _REPORT_EVERY == 0:
            progress(number, len(folders))
        with suppress(OSError):  # it was deleted a moment ago
            version, record = version_of(folder), known.get(folder.path)
            if record is None or record.version != version:
                record = read_record(folder, version)
                new.append(record)
            found.append(record)
        if len(new) >= _AT_ONCE:  # what was read stays read if the window is closed
            kept.write(new)
            new.clear()
    kept.write(new)
    kept.remove(known.keys() - {record.path for record in found}, parents)
    return sorted(found, key=lambda run: (-run.began, run.path.name))


class _Kept:
    """The file of what was read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> dict[Path, RunRecord]:
        """Return all that is kept."""
        found = {}
        with self._ignoring_failures(), self._open() as connection:
            for path, facts, config in connection.execute("SELECT path, facts, config FROM runs"):
                with suppress(ValueError, TypeError):  # of another version
                    place = Path(os.fsdecode(path))
                    found[place] = _record(place, facts, config)
        return found

    def write(self, records: Iterable[RunRecord]) -> None:
        """Keep records."""
        rows = [(os.fsencode(one.path), _facts(one), one.config) for one in records]
        if rows:
            with self._ignoring_failures(), self._open() as connection:
                connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", rows)

    def remove(self, gone: Iterable[Path], parents: Iterable[Path]) -> None:
        """Forget runs that are gone from folders; a folder that is gone itself may come back."""
        present = {parent for parent in parents if parent.is_dir()}
        rows = [(os.fsencode(path),) for path in gone if path.parent in present]
        if rows:
            with self._ignoring_failures(), self._open() as connection:
                connection.executemany("DELETE FROM runs WHERE path = ?", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._file)) as connection, connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
                connection.execute("DROP TABLE IF EXISTS runs")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.execute(_TABLE)
            yield connection

    @contextmanager
    def _ignoring_failures(self) -> Iterator[None]:
        """Remove a damaged file, and keep nothing where the file cannot be used."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError):  # it is locked, or the disk full
                with suppress(OSError):  # another window may have it open
                    self._file.with_name(f"{self._file.name}-journal").unlink(missing_ok=True)
                    self._file.unlink(missing_ok=True)
        except OSError:
            pass


@dataclass(frozen=True)
class _Facts:
    """What the file holds of a run besides its config. best: An event as a line; "" for none."""

    summary: RunSummary
    began: float
    best: str
    sample: str
    notes: OwnNotes
    version: str


def _facts(record: RunRecord) -> str:
    best = encode_event(record.best, time=0) if record.best else ""
    summary = replace(record.summary, path=Path())
    # Below the folder, whose name may be of another encoding.
    sample = record.sample.relative_to(record.path).as_posix() if record.sample else ""
    facts = _Facts(summary, record.began, best, sample, record.notes, record.version)
    return json.dumps(asdict(facts), default=str)


def _record(path: Path, facts: str, config: object) -> RunRecord:
    """Return a record as it was kept. Raises ValueError or TypeError if it was not so."""
    if not isinstance(config, bytes):
        raise TypeError("the config is compressed")
    found = typed(parse_json(facts, with_nan=True), _Facts)
    best = decode_event(found.best)
    return RunRecord(
        replace(found.summary, path=path),
        config,
        found.began,
        best if isinstance(best, Validated) else None,
        path / found.sample if found.sample else None,
        found.notes,
        found.version,
    )
