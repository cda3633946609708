"""A process that caches a folder of pictures and gets SIGKILL while it writes an entry.

`python -m tests.modules.data.killed_caching PICTURES CACHE ENTRIES`: so many entries are written.
"""

import os
import signal
import sys
from pathlib import Path

import torch

from modules.data import shards
from onetrainer.concepts.concepts import ConceptSettings
from tests import tiny
from tests.modules.data.conftest import CountingFamily, Workbench


def main(folder: str, cache: str, entries: int) -> None:
    torch.set_num_threads(1)
    write = shards.write_file
    written = 0

    def write_and_die(path, pieces):
        nonlocal written
        if written == entries:
            whole = b"".join(pieces)
            path.with_name(path.name + ".part").write_bytes(whole[: len(whole) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, pieces)
        written += 1

    shards.write_file = write_and_die
    concept = ConceptSettings(
        "data.folder", "pictures", Path(folder), resolutions=(64,), masks="files"
    )
    bench = Workbench(Path(folder), CountingFamily(tiny.family()), concept)
    bench.encode(folder=Path(cache), threads=2)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
