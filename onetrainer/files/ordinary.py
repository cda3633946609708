"""Small files of models and caches, which come from anybody: read whole, with a limit."""

import errno
from pathlib import Path

from onetrainer.files.inside import NotInside, open_ordinary

_MOST_BYTES = 32 << 20  # the index of a model's shards has some 100 kB, a tokenizer 4 MB


def read_ordinary(path: Path, *, most: int = _MOST_BYTES) -> bytes:
    """Return the content of an ordinary file, also by a link; a pipe or device is not waited for.

    Raises OSError, also if it is larger than `most`.
    """
    with open_ordinary(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise NotInside(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
    return content
