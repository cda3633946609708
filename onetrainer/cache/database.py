"""The SQLite file of the cache index: its tables, leases, and how damage is repaired.

Several processes may use it at once. Everything in it but the times of last use can be rebuilt
from the shards. A lease tells since when a program uses the folder: its entries are not pruned.
"""

import errno
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from onetrainer.errors import UserError

INDEX_NAME = "index.sqlite"
VERSION = 1
"""Increased when the tables change; an index of another version is rebuilt."""

APPLICATION = 0x4F54_4331
"""SQLite's application id: "OTC1"."""

_PATIENCE_S = 60.0
_MEMORY = ":memory:"
_TABLES = f"""
CREATE TABLE shards (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, name TEXT NOT NULL,
    signature TEXT NOT NULL, count INTEGER NOT NULL, row_bytes INTEGER NOT NULL,
    size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, UNIQUE (kind, name));
CREATE TABLE entries (
    kind TEXT NOT NULL, key BLOB NOT NULL, shard INTEGER NOT NULL, row INTEGER NOT NULL,
    used INTEGER NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
CREATE INDEX entries_of_shards ON entries (shard);
CREATE TABLE leases (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, born REAL NOT NULL,
    started INTEGER NOT NULL, seen INTEGER NOT NULL);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
_TRANSIENT_ERRORS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Errors that do not mean that the index is damaged."""

_REMOTE_LEASE_S = 24 * 3600
"""Age up to which a lease from another computer is trusted, as its process cannot be checked."""

_START_TOLERANCE_S = 2.0
"""Tolerance of a process's start time: clocks are adjusted meanwhile."""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_DAMAGE_ERRORS = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_Result = TypeVar("_Result")


class _ForeignIndex(Exception):
    """A file in the index's place that belongs to another program."""


class Database:
    """The index file, used by one thread at a time.

    refill is called after it was replaced by an empty one, possibly by another process.
    """

    def __init__(self, folder: Path, refill: Callable[[], None]) -> None:
        """Open the index. Raises UserError if it stays locked or the disk is full."""
        self._folder = folder
        self._refill = refill
        self._lock = threading.RLock()
        self._is_recovering = False
        self._connection, self.is_shared = self._open()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def transact(
        self, work: Callable[[sqlite3.Connection], _Result], *, writes: bool = True
    ) -> _Result:
        """Run a function in one transaction and return its result.

        A damaged index is rebuilt, and the function runs again. Raises UserError.
        """
        with self._lock:
            try:
                return self._transaction(work, writes=writes)
            except sqlite3.DatabaseError as error:
                self._recover(error)
            try:
                return self._transaction(work, writes=writes)
            except sqlite3.DatabaseError as error:
                raise cannot_write(self._folder, error) from error

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.transact(lambda c: c.execute(query, tuple(values)).fetchall(), writes=False)

    def rebuild(self) -> None:
        """Discard the index, which was found to be inconsistent with the shards."""
        with self._lock:
            self._recover(sqlite3.DatabaseError("the index is inconsistent"))

    def _open(self) -> tuple[sqlite3.Connection, bool]:
        """Open the index of the folder, or a new one if it is unusable, in memory if need be.

        Also returns whether other processes share it.
        """
        place = self._folder / INDEX_NAME
        try:
            if place.is_symlink():  # which is replaced, not what it leads to
                raise sqlite3.DatabaseError("a link")
            return _connect(place), True
        except _ForeignIndex:
            return _connect(_MEMORY), False
        except sqlite3.DatabaseError as error:
            if _code(error) in _TRANSIENT_ERRORS:
                raise self._unusable(error) from error
        self._remove()
        try:
            return _connect(place), True
        except sqlite3.DatabaseError:
            # Some network folders have no locks. Then each process reads the headers for itself.
            return _connect(_MEMORY), False

    def _recover(self, error: sqlite3.DatabaseError) -> None:
        """Continue after an error with the same or an empty file, or raise UserError."""
        if _code(error) in _TRANSIENT_ERRORS:
            raise self._unusable(error) from error
        self._connection.close()
        if self._is_recovering:
            self._connection, self.is_shared = _connect(_MEMORY), False
            return
        if _code(error) in (0, *_DAMAGE_ERRORS):
            self._remove()
        # Otherwise another process may have replaced the file already: then its file is used.
        self._connection, self.is_shared = self._open()
        self._is_recovering = True
        try:
            self._refill()
        finally:
            self._is_recovering = False

    def _remove(self) -> None:
        for ending in ("", "-journal"):
            with suppress(OSError):
                (self._folder / (INDEX_NAME + ending)).unlink(missing_ok=True)

    def _unusable(self, error: sqlite3.DatabaseError) -> UserError:
        if _code(error) == sqlite3.SQLITE_FULL:
            return cannot_write(self._folder, error)
        return UserError(
            f"{self._folder}: another program has locked the cache index",
            "It should release it within a minute",
            "Try again when that program is done, or choose another cache folder",
        )

    def _transaction(
        self, work: Callable[[sqlite3.Connection], _Result], *, writes: bool
    ) -> _Result:
        with self._connection as connection:
            # Writers lock at once: two readers that both begin to write later would deadlock.
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            return work(connection)


def _connect(place: Path | str) -> sqlite3.Connection:
    """Open an index with its tables. Raises sqlite3.DatabaseError, _ForeignIndex."""
    connection = sqlite3.connect(
        place, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
    )
    try:
        if _version(connection) == VERSION:
            return connection
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have made the tables meanwhile.
            missing = "" if _version(connection) == VERSION else _TABLES
            for statement in filter(str.strip, missing.split(";")):
                connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    """Return the version of an index, 0 if it is empty. Raises as `_connect` does."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    if tables and application != APPLICATION:
        raise _ForeignIndex
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version not in (0, VERSION):
        raise sqlite3.DatabaseError("an index of another version")
    return version


def _code(error: sqlite3.DatabaseError) -> int:
    """Return SQLite's primary error code; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def write_lease(connection: sqlite3.Connection, name: str, started: int) -> None:
    """Write or renew this process's lease, which began at a time in seconds since 1970."""
    pid = os.getpid()
    row = (name, socket.gethostname(), pid, _process_start_time(pid) or 0.0, started)
    connection.execute(
        "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?)", (*row, int(time.time()))
    )


def end_lease(connection: sqlite3.Connection, name: str) -> None:
    """Remove a lease."""
    connection.execute("DELETE FROM leases WHERE id = ?", (name,))


def in_use_since(connection: sqlite3.Connection) -> int | None:
    """Return when the earliest active lease began; None if there is none."""
    return min((started for _, started in _active_leases(connection)), default=None)


def other_computers(connection: sqlite3.Connection) -> list[str]:
    """Return the names of other computers with active leases."""
    return sorted({host for host, _ in _active_leases(connection)} - {socket.gethostname()})


def _active_leases(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Return host and start of active leases, and remove those of programs that were killed."""
    active = []
    for name, host, pid, born, started, seen in connection.execute("SELECT * FROM leases"):
        if host == socket.gethostname():
            now_born = _process_start_time(pid)
            is_alive = now_born is not None and abs(now_born - born) < _START_TOLERANCE_S
        else:
            is_alive = time.time() - seen < _REMOTE_LEASE_S
        if is_alive:
            active.append((host, started))
        else:
            end_lease(connection, name)
    return active


def _process_start_time(pid: int) -> float | None:
    """Return when a process began, in seconds since 1970; None if there is no such process."""
    import psutil  # only here: it takes a while to load

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert OSError to the UserError of a cache folder that cannot be written."""
    try:
        yield
    except OSError as error:
        raise cannot_write(folder, error) from error


def cannot_write(folder: Path, error: OSError | sqlite3.DatabaseError) -> UserError:
    """Return the error of a cache folder that is full or not writable."""
    if isinstance(error, OSError):
        is_full, reason = error.errno in _DISK_FULL, error.strerror or str(error)
    else:
        code = getattr(error, "sqlite_errorcode", 0)
        is_full, reason = code == sqlite3.SQLITE_FULL, f"its index: {error}"
    if is_full:
        return UserError(
            f"{folder}: the disk is full, so encoded images cannot be cached",
            "An image of 512 px takes 0.13 MB",
            'Free space, for example by "onetrainer cache --prune", or choose another "Cache'
            ' folder"',
        )
    return UserError(
        f"{folder}: the cache folder cannot be written ({reason})",
        "A writable folder is needed",
        'Choose another "Cache folder"',
    )
