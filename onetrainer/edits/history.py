"""History of changed captions and masks: what every file held before and after each batch."""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from onetrainer.errors import UserError
from onetrainer.files.locks import locked
from onetrainer.run.user_folder import user_folder

MAX_BYTES = 500_000_000
"""Size of all contents; the oldest batches are forgotten first, but never the last one."""

_NAME = "edits.sqlite"
_FORMAT = 1
_WAIT = 10.0  # seconds, for another window that saves
_TABLES = """
CREATE TABLE batches (number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, about TEXT,
    undoes INTEGER, redoes INTEGER);
CREATE TABLE changes (batch INTEGER, path BLOB, before BLOB, after BLOB,
    PRIMARY KEY (batch, path)) WITHOUT ROWID;
CREATE INDEX paths ON changes (path);
CREATE TABLE contents (digest BLOB PRIMARY KEY, data BLOB);
"""
# Changed files of a batch that no later batch has taken back or stepped over.
_LEFT = """(SELECT count(*) FROM changes AS own WHERE own.batch = batches.number
    AND own.before IS NOT own.after AND NOT EXISTS
    (SELECT 1 FROM batches AS undo JOIN changes AS undone ON undone.batch = undo.number
     WHERE undo.undoes = batches.number AND undone.path = own.path))"""
_COLUMNS = f"number, time, about, undoes, {_LEFT}"

Content = tuple[Path, bytes | None, bytes | None]
"""A file with what it held before and after; None is no file.

Twice the same: a taking back has stepped over the file, which it left as it was.
"""


class BatchId(NamedTuple):
    """What tells a batch from all others, also of another history, whose numbers are the same.

    Attributes:
        number: Its number; later ones are larger.
        time: When it was saved, in seconds since 1970.
    """

    number: int
    time: float


@dataclass(frozen=True)
class Batch:
    """A saved batch of changes.

    Attributes:
        number: Its number; later ones are larger.
        time: When it was saved, in seconds since 1970.
        about: What was done, for a person.
        undoes: Number of the batch that it has taken back; None if it is no taking back.
        left: Number of its files that no later batch has taken back or stepped over.
    """

    number: int
    time: float
    about: str
    undoes: int | None
    left: int

    @property
    def id(self) -> BatchId:
        """What tells it from all others."""
        return BatchId(self.number, self.time)


class EditHistory:
    """The history in a folder, by default the user's own. Any number of processes may use it.

    Every method raises UserError if the file cannot be read or written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_folder()
        self._file = self._folder / _NAME

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from saving meanwhile."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with locked(self._folder / f"{_NAME}.lock", wait=_WAIT):
                yield
        except BlockingIOError as error:
            raise UserError(
                "another window or terminal is saving captions or masks",
                "One saves at a time, so that none is lost",
                "Wait until it is done, then save again",
            ) from error
        except OSError as error:
            raise _unusable(self._file, error) from error

    def add(self, about: str, contents: Collection[Content], *, of: Batch | None = None) -> BatchId:
        """Add a batch, forget the oldest ones if there is too much, and return which it is.

        of: The batch that it takes back; to take back a taking back is to redo.
        """
        undoes = of.number if of is not None and of.undoes is None else None
        redoes = of.number if of is not None and of.undoes is not None else None
        now = time.time()
        with self._open() as connection:
            found = connection.execute(
                "INSERT INTO batches (time, about, undoes, redoes) VALUES (?, ?, ?, ?)",
                (now, about, undoes, redoes),
            )
            number = found.lastrowid
            assert number is not None, "a row was inserted"
            for path, before, after in contents:
                digests = [_store(connection, data) for data in (before, after)]
                connection.execute(
                    "INSERT INTO changes VALUES (?, ?, ?, ?)", (number, os.fsencode(path), *digests)
                )
            _forget_oldest(connection, number)
        return BatchId(number, now)

    def keep_only(self, number: int, paths: Collection[Path]) -> None:
        """Remove the other files of a batch, which were not written after all."""
        kept = {os.fsencode(path) for path in paths}
        with self._open() as connection:
            rows = connection.execute("SELECT path FROM changes WHERE batch = ?", (number,))
            others = [(number, path) for (path,) in rows.fetchall() if path not in kept]
            connection.executemany("DELETE FROM changes WHERE batch = ? AND path = ?", others)
            if not kept:
                connection.execute("DELETE FROM batches WHERE number = ?", (number,))

    def batches(self, most: int = 200) -> list[Batch]:
        """Return the last batches, the newest first."""
        query = f"SELECT {_COLUMNS} FROM batches ORDER BY number DESC LIMIT ?"
        return self._batches(query, (most,))

    def known(self, ids: Iterable[BatchId]) -> list[Batch]:
        """Return those of some batches that are not forgotten, the newest first."""
        wanted = set(ids)
        return [each for each in self.numbered(one.number for one in wanted) if each.id in wanted]

    def numbered(self, numbers: Iterable[int]) -> list[Batch]:
        """Return the batches of some numbers, the newest first."""
        query = (
            f"SELECT {_COLUMNS} FROM batches WHERE number IN (SELECT value FROM json_each(?))"
            " ORDER BY number DESC"
        )
        return self._batches(query, (json.dumps(list(numbers)),))

    def last(self) -> Batch | None:
        """Return the newest batch that can be taken back and is no taking back itself."""
        query = f"SELECT {_COLUMNS} FROM batches WHERE undoes IS NULL AND {_LEFT} > 0"
        return next(iter(self._batches(f"{query} ORDER BY number DESC LIMIT 1", ())), None)

    def last_undone(self) -> Batch | None:
        """Return the last taking back that can be redone; None after anything new was saved."""
        query = (
            f"SELECT {_COLUMNS} FROM batches WHERE undoes IS NOT NULL"
            " AND number NOT IN (SELECT redoes FROM batches WHERE redoes IS NOT NULL)"
            " AND EXISTS (SELECT 1 FROM changes WHERE batch = number AND before IS NOT after)"
            " AND number > (SELECT coalesce(max(number), 0) FROM batches"
            " WHERE undoes IS NULL AND redoes IS NULL) ORDER BY number DESC LIMIT 1"
        )
        return next(iter(self._batches(query, ())), None)

    def changes(self, batch: Batch) -> list[Content]:
        """Return the changed files of a batch, with what they held before and after it.

        None of another batch of that number, where the history was moved away meanwhile.
        """
        query = (
            "SELECT path, one.data, two.data FROM changes"
            " LEFT JOIN contents AS one ON one.digest = before"
            " LEFT JOIN contents AS two ON two.digest = after"
            " WHERE (SELECT time FROM batches WHERE number = batch) = ? AND batch = ?"
            " AND before IS NOT after ORDER BY path"
        )
        if not self._file.exists():
            return []
        with self._open() as connection:
            rows = connection.execute(query, (batch.time, batch.number)).fetchall()
        return [(Path(os.fsdecode(path)), before, after) for path, before, after in rows]

    def versions(self, path: Path, most: int = 12) -> list[tuple[Batch, bytes | None]]:
        """Return the last batches that changed a file, each with what it held before them."""
        query = (
            f"SELECT {_COLUMNS}, data FROM batches JOIN changes ON batch = number AND path = ?"
            " AND before IS NOT after LEFT JOIN contents ON digest = before"
            " ORDER BY number DESC LIMIT ?"
        )
        if not self._file.exists():
            return []
        with self._open() as connection:
            rows = connection.execute(query, (os.fsencode(path.resolve()), most)).fetchall()
        return [(Batch(*batch), before) for *batch, before in rows]

    def _batches(self, query: str, values: tuple[object, ...]) -> list[Batch]:
        if not self._file.exists():
            return []
        with self._open() as connection:
            return [Batch(*row) for row in connection.execute(query, values)]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which is on the disk when the block ends."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._file, timeout=_WAIT)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                with connection:
                    _require_format(connection)
                    yield connection
        except (OSError, sqlite3.Error) as error:
            raise _unusable(self._file, error) from error


def _unusable(file: Path, error: OSError | sqlite3.Error) -> UserError:
    reason = error.strerror if isinstance(error, OSError) else error
    return UserError(
        f"{file}: the history of captions and masks cannot be used ({reason})",
        "Nothing is saved without a way back",
        "Make room on its disk, or move this file away: captions and masks stay as they are, and a"
        " new history begins",
    )


def _require_format(connection: sqlite3.Connection) -> None:
    """Create the tables of a new file. Raises sqlite3.DatabaseError for another format."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _FORMAT):
        raise sqlite3.DatabaseError("it was written by another version")
    if version == 0:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.strip().split(";")[:-1]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_FORMAT}")


def _store(connection: sqlite3.Connection, data: bytes | None) -> bytes | None:
    """Store a content once, and return its digest."""
    if data is None:
        return None
    digest = hashlib.sha256(data).digest()
    connection.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, data))
    return digest


def _forget_oldest(connection: sqlite3.Connection, last: int) -> None:
    """Remove the oldest batches until the contents are small enough."""

    def total() -> int:
        (size,) = connection.execute("SELECT total(length(data)) FROM contents").fetchone()
        return int(size)

    while total() > MAX_BYTES:
        (oldest,) = connection.execute("SELECT min(number) FROM batches").fetchone()
        if oldest == last:
            return
        connection.execute("DELETE FROM changes WHERE batch = ?", (oldest,))
        connection.execute("DELETE FROM batches WHERE number = ?", (oldest,))
        connection.execute(
            "DELETE FROM contents WHERE digest NOT IN"
            " (SELECT before FROM changes WHERE before IS NOT NULL"
            " UNION SELECT after FROM changes WHERE after IS NOT NULL)"
        )
