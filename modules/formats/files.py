"""Files that appear complete or not at all, and are the same bytes for the same content."""

import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
ALIGNMENT = 8  # of the header, so that tensors start at a multiple of it


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the path's place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """A safetensors file whose bytes depend on its content alone.

    tensors: float32, float16 or bfloat16, on any device.
    The library's own writer shuffles the metadata anew in every process.
    """
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name, tensor in sorted(tensors.items()):
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in sorted(tensors.items()):
            file.write(_bytes(tensor))


def _bytes(tensor: Tensor) -> bytes:
    """Little-endian, as every machine that runs torch is."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
