"""Caching that was killed goes on where it was."""

import signal
import subprocess
import sys

from tests.modules.data.test_cache import IMAGES, TEXTS, entry_files, same

ENTRIES = 3


def test_sigkill_costs_what_was_being_written_and_nothing_else(bench):
    command = [sys.executable, "-m", "tests.modules.data.killed_caching"]
    command += [str(bench.folder), str(bench.cache), str(ENTRIES)]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    again = bench.encode()
    images, texts = bench.family.encoded()
    assert images + texts == IMAGES + TEXTS - ENTRIES
    assert same(again, bench.encode(folder=bench.folder.parent / "other"))
    assert again.images.store.damaged == []
    assert entry_files(bench, "latents") != []
