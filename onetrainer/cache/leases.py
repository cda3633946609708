"""Leases: which programs use a cache folder since when, so that their entries are not pruned."""

import os
import socket
import sqlite3
import time

LEASES = """
CREATE TABLE leases (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, born REAL NOT NULL,
    started INTEGER NOT NULL, seen INTEGER NOT NULL);
"""
_REMOTE_LEASE_S = 24 * 3600
"""Age up to which a lease from another computer is trusted, as its process cannot be checked."""

_START_TOLERANCE_S = 2.0
"""Tolerance of a process's start time: clocks are adjusted meanwhile."""


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
