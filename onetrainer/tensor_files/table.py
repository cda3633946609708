"""Reading the header of a tensor file of any format."""

import struct
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.files.inside import open_ordinary
from onetrainer.tensor_files.entries import TensorTable
from onetrainer.tensor_files.pickle_header import read_archive, read_stream
from onetrainer.tensor_files.refusals import DOWNLOAD_AGAIN, not_tensors_error
from onetrainer.tensor_files.safetensors_header import read_safetensors

PICKLE_SUFFIXES = (".ckpt", ".pt", ".pth", ".bin")
_ZIP = b"PK\x03\x04"
# Pickle protocols 2 to 5; torch.save files that are no zip archives begin with one.
_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))


def read_table(path: Path) -> TensorTable:
    """Read the tensors of a safetensors or torch.save file, distinguished by content.

    Raises UserError for any other file, an incomplete one, or one with code.
    """
    size = path.stat().st_size
    if size == 0:
        raise UserError(f"{path.name}: the file is empty (0 bytes)", remedy=DOWNLOAD_AGAIN)
    with open_ordinary(path) as file:
        start = file.read(64)
    if start.startswith(_ZIP):
        return read_archive(path)
    is_pickle_by_name = path.suffix.lower() in PICKLE_SUFFIXES
    # A safetensors table begins with a brace; its length may look like a pickle's start.
    looks_safe = start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] <= size
    if not looks_safe and start.startswith(_PICKLES):
        return read_stream(path)
    # The oldest pickles begin with an opcode.
    if not looks_safe and is_pickle_by_name and start[:1] in (b"c", b"(", b"]", b"}"):
        return read_stream(path)
    if is_pickle_by_name and not looks_safe:
        raise not_tensors_error(path, start)
    return read_safetensors(path)
