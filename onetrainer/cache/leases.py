"""Which programs use a cache folder now, and since when: what they use is not pruned."""

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
_BELIEVED_S = 24 * 3600
"""For how long a program on another computer is believed to be at work after it last said so: no
one can look there."""

_SAME_S = 2.0
"""How far two tellings of when a process began may differ: clocks are set meanwhile."""


@dataclass(frozen=True)
class Lease:
    """One program's use of the folder. born: when its process began, in seconds; started: when its
    use did; seen: when it last said so.
    """

    id: str
    host: str
    pid: int
    born: float
    started: int
    seen: int

    def write(self, connection: sqlite3.Connection) -> None:
        """Puts it down."""
        row = (self.id, self.host, self.pid, self.born, self.started, self.seen)
        connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?)", row)

    def end(self, connection: sqlite3.Connection) -> None:
        """Takes it away."""
        connection.execute("DELETE FROM leases WHERE id = ?", (self.id,))

    def is_alive(self) -> bool:
        """Whether that program may still be at work."""
        if self.host != socket.gethostname():
            return time.time() - self.seen < _BELIEVED_S
        born = _process_start_time(self.pid)
        return born is not None and abs(born - self.born) < _SAME_S


def new_lease(before: Lease | None = None) -> Lease:
    """This process's use, from now on or as before."""
    now = int(time.time())
    if before is not None:
        return replace(before, seen=now)
    pid = os.getpid()
    return Lease(uuid4().hex, socket.gethostname(), pid, _process_start_time(pid) or 0.0, now, now)


def in_use_since(connection: sqlite3.Connection) -> int | None:
    """When the earliest of the programs at work began; None if there is none."""
    return min((lease.started for lease in _active_leases(connection)), default=None)


def other_computers(connection: sqlite3.Connection) -> list[str]:
    """The names of the other computers on which programs use the folder."""
    own = socket.gethostname()
    return sorted({lease.host for lease in _active_leases(connection)} - {own})


def _active_leases(connection: sqlite3.Connection) -> list[Lease]:
    """The programs at work. Those that have ended without saying so are taken away."""
    leases = [Lease(*row) for row in connection.execute("SELECT * FROM leases")]
    alive = [lease for lease in leases if lease.is_alive()]
    for lease in leases:
        if lease not in alive:
            lease.end(connection)
    return alive


def _process_start_time(pid: int) -> float | None:
    """When a process began, in seconds since 1970; None if there is none such."""
    import psutil  # only here: it takes a while to load

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None
