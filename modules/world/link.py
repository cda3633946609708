"""Connections between a run's processes: where one ends, so do the others, and its cause is known.

The first process listens, and every other one connects. The system closes a process's connections
when it ends, however it ends, so nothing has to be sent regularly and nobody waits for a timeout.
Collective operations alone would not tell: those of GPUs wait for minutes when a process is gone.
"""

import json
import os
import secrets
import selectors
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import monotonic

from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, UserError
from onetrainer.files.own_json import parse_object, typed
from onetrainer.run.events import Failed
from onetrainer.run.failures import exit_failure

_POLL_SECONDS = 0.2
_REAP_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""How long the first process has to end by itself: saving what it has trained, if it can."""
CAUSE_SECONDS = 3.0
"""How long after a broken connection its cause may arrive."""
_BUFFER = 1 << 16
_DONE = b"done"


class ProcessLost(UserError):
    """Another process of the run has ended."""


@dataclass
class _Peer:
    """A connection of the first process to another one; rank is -1 until it has named itself."""

    rank: int = -1
    rest: bytes = b""
    failed: Failed | None = None


class Hub:
    """The first process's end of all connections, watched by a thread."""

    def __init__(
        self,
        size: int,
        *,
        host: str,
        log_of: Callable[[int], str],
        on_lost: Callable[[UserError], None],
    ) -> None:
        """Listen for the other processes.

        Args:
            size: Number of processes of the run.
            host: Name or address by which the others reach this one.
            log_of: Returns the log of a process by its rank, for messages.
            on_lost: Ends the run if the main thread does not: it may wait in an operation for good.
        """
        self._size = size
        self._log_of = log_of
        self._on_lost = on_lost
        is_here = host in ("127.0.0.1", "localhost")
        self._server = socket.create_server(("127.0.0.1" if is_here else "", 0))
        self._token = secrets.token_hex(8)
        self.address = f"{host}:{self._server.getsockname()[1]}:{self._token}"
        self.connected = 0
        """How many of the others are connected."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._error: UserError | None = None
        self._lost = threading.Event()
        self._is_leaving = threading.Event()
        self._closing = threading.Event()
        self._is_done = False
        self._thread: threading.Thread | None = None

    def start(self, processes: dict[int, "subprocess.Popen[bytes]"]) -> None:
        """Watch from now on. processes: Those started here, by rank."""
        self._processes = processes
        self._thread = threading.Thread(target=self._watch, name="processes", daemon=True)
        self._thread.start()

    def cause(self) -> UserError | None:
        """Return why another process has ended, once that is known; None if none has.

        The caller is to end the run.
        """
        self.leave()
        self._lost.wait(CAUSE_SECONDS)
        return self._error

    def leave(self) -> None:
        """Leave the end of the run to the main thread, which needs the others no more."""
        self._is_leaving.set()

    def begin(self) -> None:
        """End the run again where another process has ended."""
        self._is_leaving.clear()

    def close(self, *, is_done: bool) -> None:
        """Stop watching, and end the others. is_done: Whether that is in order."""
        self._is_done = is_done
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._server.close()

    def _watch(self) -> None:
        deadline = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            while not self._closing.is_set():
                for key, _ in selector.select(_POLL_SECONDS):
                    if isinstance(key.data, _Peer):
                        self._hear(selector, key.fileobj, key.data)  # type: ignore[arg-type] # a socket
                    else:
                        connection, _ = self._server.accept()
                        connection.setblocking(False)
                        selector.register(connection, selectors.EVENT_READ, _Peer())
                self._look_at_processes()
                if self._error is None:
                    deadline = monotonic() + GRACE_SECONDS
                elif monotonic() > deadline and not self._is_leaving.is_set():
                    self._on_lost(self._error)
            for key in list(selector.get_map().values()):
                if isinstance(key.data, _Peer) and isinstance(key.fileobj, socket.socket):
                    with suppress(OSError):
                        key.fileobj.send(_DONE if self._is_done else b"")
                    key.fileobj.close()

    def _hear(
        self, selector: selectors.BaseSelector, connection: socket.socket, peer: _Peer
    ) -> None:
        chunk = b""
        with suppress(OSError):  # a connection that was reset has ended, too
            chunk = connection.recv(_BUFFER)
        *lines, peer.rest = (peer.rest + chunk).split(b"\n")
        if not chunk or not all(self._take(peer, line) for line in lines):
            selector.unregister(connection)
            connection.close()
            if peer.rank > 0:
                self._note(peer.rank, peer.failed)

    def _take(self, peer: _Peer, line: bytes) -> bool:
        """Take a message; return False for one of a stranger."""
        with suppress(ValueError, TypeError, KeyError):
            message = parse_object(line)
            if peer.rank < 0:
                if message["token"] != self._token:
                    return False
                peer.rank = typed(message["rank"], int)
                self.connected += 1
            else:
                peer.failed = typed(message["failed"], Failed)
            return True
        return False

    def _look_at_processes(self) -> None:
        """Find a process that has ended before it could connect, or while it was disconnected."""
        for rank, process in list(self._processes.items()):
            if process.poll() not in (None, 0):
                self._note(rank, None)

    def _note(self, rank: int, failed: Failed | None) -> None:
        if self._error is not None:
            return
        name, log = f"process {rank} of {self._size}", self._log_of(rank)
        place = f"Its log: {log}"
        if failed is not None:
            self._error = ProcessLost(
                f"{name}: {failed.what}",
                failed.expected,
                f"{failed.remedy} {place}".strip(),
                failure=failed.failure,
            )
        else:
            code = None
            if process := self._processes.get(rank):
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(_REAP_SECONDS)
            kind, what = exit_failure(code)
            self._error = ProcessLost(
                f"{name} has ended, and with it the run. {what}",
                "",
                f"The run can be resumed from its last checkpoint. {place}",
                failure=kind,
            )
        self._lost.set()


class Line:
    """Another process's connection to the first one, whose end is the end of this process."""

    def __init__(self, address: str, rank: int) -> None:
        """Connect. address: Of the hub."""
        host, port, token = address.rsplit(":", 2)
        self._socket = socket.create_connection((host, int(port)))
        self._send({"token": token, "rank": rank})
        threading.Thread(target=self._wait, name="first process", daemon=True).start()

    def report(self, event: Failed) -> None:
        """Tell the first process why this one is about to end."""
        with suppress(OSError):
            self._send({"failed": asdict(event)})

    def wait_for_the_end(self) -> None:
        """Wait until the first process ends, which ends this one, if it does so at all soon."""
        threading.Event().wait(GRACE_SECONDS)

    def _send(self, message: dict[str, object]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _wait(self) -> None:
        received = b""
        with suppress(OSError):
            received = self._socket.recv(len(_DONE))
        os._exit(EXIT_DONE if received else EXIT_STOPPED)
