"""Caching that was killed goes on where it was."""

import os
import signal
import time
import warnings

import pytest

from modules.data import shards
from tests.modules.data.test_cache import IMAGES, TEXTS, entry_files, same

ENTRIES = 3
DEADLINE_S = 120.0


def encode_until_killed(bench):
    """Encodes, and gets SIGKILL while it writes an entry after so many."""
    write, written = shards.write_file, 0

    def write_and_die(path, pieces):
        nonlocal written
        if written == ENTRIES:
            data = b"".join(pieces)
            path.with_name(path.name + ".part").write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, pieces)
        written += 1

    shards.write_file = write_and_die
    bench.encode(threads=2)


def exit_status(pid):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_sigkill_costs_what_was_being_written_and_nothing_else(bench):
    with warnings.catch_warnings():
        # Python 3.12 warns of threads: of those here none holds a lock that the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            encode_until_killed(bench)
        finally:
            os._exit(1)
    status = exit_status(pid)
    assert status is not None
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    again = bench.encode()
    images, texts = bench.family.encoded()
    assert images + texts == IMAGES + TEXTS - ENTRIES
    assert same(again, bench.encode(folder=bench.folder.parent / "other"))
    assert again.images.store.damaged == []
    assert entry_files(bench, "latents") != []
