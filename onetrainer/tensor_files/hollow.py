"""Weights that hold nothing but zeros, as in a file whose place was reserved before its download.

Such a file has its whole size and a sound header. No trained matrix is zero.
"""

from collections.abc import Collection
from typing import BinaryIO

from onetrainer.tensor_files.entries import TensorEntry, TensorTable

_SAMPLES = 32
_SAMPLE_BYTES = 256


def hollow_weights(table: TensorTable, names: Collection[str]) -> list[str]:
    """Return those of a sample of matrices that are nothing but zeros, in the file's order.

    A few bytes of each are read, from its begin, its middle and its end.

    names: Those of weights that are trained.
    """
    matrices = sorted(
        (entry.offset, name)
        for name, entry in table.entries.items()
        if name in names and len(entry.shape) > 1 and entry.size >= _SAMPLE_BYTES
    )
    last = len(matrices) - 1
    sample = {matrices[last * place // (_SAMPLES - 1)] for place in range(_SAMPLES) if matrices}
    with table.path.open("rb", buffering=0) as file:
        return [name for _, name in sorted(sample) if _is_zero(file, table.entries[name])]


def _is_zero(file: BinaryIO, entry: TensorEntry) -> bool:
    for place in (0, entry.size // 2 - _SAMPLE_BYTES // 2, entry.size - _SAMPLE_BYTES):
        file.seek(entry.offset + place)
        if any(file.read(_SAMPLE_BYTES)):
            return False
    return True
