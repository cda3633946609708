"""Reads the header of a file of tensors, whatever its name says it is."""

import struct
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.tensor_files.entries import TensorEntry, TensorTable
from onetrainer.tensor_files.pickle_header import read_archive, read_stream
from onetrainer.tensor_files.refusals import AGAIN, foreign_error
from onetrainer.tensor_files.safetensors_header import read_safetensors

__all__ = ["TensorEntry", "TensorTable", "read_table"]

PICKLE_SUFFIXES = (".ckpt", ".pt", ".pth", ".bin")
_ZIP = b"PK\x03\x04"
# A pickle's protocol, 2 to 5, with which every file of torch.save begins that is no zip archive.
_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))


def read_table(path: Path) -> TensorTable:
    """The tensors of a safetensors file or of a file of torch.save, told apart by their content.

    Raises UserError for a file that is neither, is not complete, or holds code.
    """
    size = path.stat().st_size
    if size == 0:
        raise UserError(f"{path.name}: the file is empty (0 bytes)", remedy=AGAIN)
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(_ZIP):
        return read_archive(path)
    is_pickle_by_name = path.suffix.lower() in PICKLE_SUFFIXES
    # A safetensors file's table begins with a brace; its length may happen to begin as a pickle.
    looks_safe = start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] <= size
    if not looks_safe and start.startswith(_PICKLES):
        return read_stream(path)
    # The oldest pickles begin with any letter.
    if not looks_safe and is_pickle_by_name and start[:1] in (b"c", b"(", b"]", b"}"):
        return read_stream(path)
    if is_pickle_by_name and not looks_safe:
        raise foreign_error(path, start)
    return read_safetensors(path)
