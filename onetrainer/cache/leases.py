"""Leases: which programs use a cache folder since when, so that their entries are not pruned."""

import os
import socket
import sqlite3
import time
from dataclasses import dataclass, replace
from uuid import uuid4

LEASES = """
CREATE TABLE leases (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, born REAL NOT NULL,
    started INTEGER NOT NULL, seen INTEGER NOT NULL);
"""
_REMOTE_LEASE_S = 24 * 3600
"""Age up to which a lease from another computer is trusted, as its process cannot be checked."""

_START_TOLERANCE_S = 2.0
"""Tolerance of a process's start time: clocks are adjusted meanwhile."""


@dataclass(frozen=True)
class Lease:
    """A program's use of the folder.

    Attributes:
        id: unique id.
        host: computer.
        pid: process.
        born: start of the process in seconds since 1970.
        started: start of the use.
        seen: last renewal.
    """

    id: str
    host: str
    pid: int
    born: float
    started: int
    seen: int

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the lease."""
        row = (self.id, self.host, self.pid, self.born, self.started, self.seen)
        connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?)", row)

    def end(self, connection: sqlite3.Connection) -> None:
        """Remove the lease."""
        connection.execute("DELETE FROM leases WHERE id = ?", (self.id,))

    def is_alive(self) -> bool:
        """Return whether the program may still be running."""
        if self.host != socket.gethostname():
            return time.time() - self.seen < _REMOTE_LEASE_S
        born = _process_start_time(self.pid)
        return born is not None and abs(born - self.born) < _START_TOLERANCE_S


def new_lease(before: Lease | None = None) -> Lease:
    """Return a lease of this process, from now on or renewed."""
    now = int(time.time())
    if before is not None:
        return replace(before, seen=now)
    pid = os.getpid()
    return Lease(uuid4().hex, socket.gethostname(), pid, _process_start_time(pid) or 0.0, now, now)


def in_use_since(connection: sqlite3.Connection) -> int | None:
    """Return when the earliest active lease began; None if there is none."""
    return min((lease.started for lease in _active_leases(connection)), default=None)


def other_computers(connection: sqlite3.Connection) -> list[str]:
    """Return the names of other computers with active leases."""
    own = socket.gethostname()
    return sorted({lease.host for lease in _active_leases(connection)} - {own})


def _active_leases(connection: sqlite3.Connection) -> list[Lease]:
    """Return the active leases, and remove those of programs that ended without removing them."""
    leases = [Lease(*row) for row in connection.execute("SELECT * FROM leases")]
    alive = [lease for lease in leases if lease.is_alive()]
    for lease in leases:
        if lease not in alive:
            lease.end(connection)
    return alive


def _process_start_time(pid: int) -> float | None:
    """Return when a process began, in seconds since 1970; None if there is no such process."""
    import psutil  # only here: it takes a while to load

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None
