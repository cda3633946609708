"""Tensors read from files one at a time: safetensors and pickles alike, nothing is executed.

A tensor is read by its place in the file into memory of its own. Mapping the file instead would
count its pages as the process's own, and would break when the file is replaced.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Size, Tensor

from onetrainer.errors import UserError
from onetrainer.tensor_files import TensorEntry, TensorTable, read_table

DTYPES: Mapping[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
}
"""safetensors' words, in the order in which its library writes tensors."""

PIECE = 4 << 20  # bytes; a multiple of every dtype's size

PRECISIONS: Mapping[str, torch.dtype | None] = {
    "keep": None,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
"""The words for a file's precision; None leaves each tensor in its own."""


@dataclass(frozen=True)
class LazyTensor:
    """A tensor that is made when it is needed.

    read: gives it on the CPU in this dtype and shape, anew each time.
    """

    dtype: torch.dtype
    shape: Size
    read: Callable[[], Tensor]

    def numel(self) -> int:
        """How many numbers it holds."""
        return self.shape.numel()

    def element_size(self) -> int:
        """Bytes of each number."""
        return self.dtype.itemsize


@dataclass(frozen=True)
class TensorReader:
    """Open files of tensors; of two tensors with one name the later file's is meant.

    piece: one room for all casts, because rooms that come and go between the tensors that stay
    would scatter the memory. It and the files' positions make a reader one for a single thread.
    """

    tables: Sequence[TensorTable]
    files: Sequence[BinaryIO]
    places: Mapping[str, int]  # which of the files each name is in
    piece: Tensor

    @property
    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self.places)

    @property
    def metadata(self) -> dict[str, str]:
        """What the files' headers say besides their tensors."""
        return {key: value for table in self.tables for key, value in table.metadata.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.places

    def entry(self, name: str) -> TensorEntry:
        """What the header says of a tensor; KeyError if there is none of this name."""
        return self.tables[self.places[name]].entries[name]

    def path(self, name: str) -> Path:
        """The file that a tensor is in; KeyError if there is none of this name."""
        return self.tables[self.places[name]].path

    def shape(self, name: str) -> Size:
        """A tensor's shape; KeyError if there is none of this name."""
        return Size(self.entry(name).shape)

    def dtype(self, name: str) -> torch.dtype:
        """A tensor's dtype; UserError if torch has none like it."""
        word = self.entry(name).dtype
        if word not in DTYPES:
            raise UserError(
                f"{self.path(name).name}: the tensor {name} is stored as {word}",
                "One of " + ", ".join(DTYPES) + " was expected",
                "Choose another version of this model",
            )
        return DTYPES[word]

    def read(self, name: str) -> Tensor:
        """A tensor on the CPU in the file's dtype, contiguous, in memory of its own."""
        entry, dtype = self.entry(name), self.dtype(name)
        data = torch.empty(entry.size, dtype=torch.uint8)
        self._read_bytes(data, name, 0)
        elements = data.view(dtype)
        if entry.strides is None:
            return elements.reshape(entry.shape)
        return elements.as_strided(entry.shape, entry.strides).contiguous()

    def read_as(self, name: str, dtype: torch.dtype) -> Tensor:
        """A tensor on the CPU in another dtype, without ever holding all of it in the file's.

        A few MiB at a time, which stay in the processor's cache: four times as fast as reading a
        large tensor before it is cast (measured on the CPU, fp16 to bf16).
        """
        entry, stored = self.entry(name), self.dtype(name)
        if entry.strides is not None or stored == dtype or not entry.shape:
            return self.read(name).to(dtype)
        result = torch.empty(entry.shape, dtype=dtype)
        flat = result.view(-1)
        for start in range(0, entry.size, PIECE):
            part = self.piece[: min(PIECE, entry.size - start)]
            self._read_bytes(part, name, start)
            first = start // stored.itemsize
            flat[first : first + len(part) // stored.itemsize].copy_(part.view(stored))
        return result

    def lazy(self, name: str) -> LazyTensor:
        """A tensor that is read when it is needed, as long as the reader is open."""
        return LazyTensor(self.dtype(name), self.shape(name), lambda: self.read(name))

    def _read_bytes(self, room: Tensor, name: str, start: int) -> None:
        """Fills the room with a tensor's bytes, from one of them on."""
        file = self.files[self.places[name]]
        file.seek(self.entry(name).offset + start)
        memory, done = room.numpy().data, 0
        while done < len(memory):  # one call reads two gigabytes at most
            try:
                count = file.readinto(memory[done:])  # type: ignore[attr-defined]  # FileIO's
            except OSError as error:
                raise _unreadable_error(self.path(name), error) from error
            if not count:
                raise UserError(
                    f"{self.path(name).name}: the file ends inside the tensor {name}",
                    remedy="The file has changed or is damaged; try again, or download it again",
                )
            done += count


@contextmanager
def open_tensors(paths: Path | Sequence[Path]) -> Iterator[TensorReader]:
    """The tensors of a file, or of several files that are parts of one; UserError if unreadable."""
    with ExitStack() as stack:
        tables, files = list[TensorTable](), list[BinaryIO]()
        for path in [paths] if isinstance(paths, Path) else paths:
            try:
                tables.append(read_table(path))
                files.append(stack.enter_context(path.open("rb", buffering=0)))
            except OSError as error:
                raise _unreadable_error(path, error) from error
        places = {name: place for place, table in enumerate(tables) for name in table.entries}
        yield TensorReader(tables, files, places, torch.empty(PIECE, dtype=torch.uint8))


def as_lazy(tensor: Tensor | LazyTensor) -> LazyTensor:
    """The tensor as one that is made when it is needed, on the CPU; one without data stays so."""
    if isinstance(tensor, LazyTensor):
        return tensor
    return LazyTensor(
        tensor.dtype, tensor.shape, lambda: tensor if tensor.is_meta else tensor.cpu()
    )


def converted(tensor: Tensor | LazyTensor, dtype: torch.dtype | None, *, name: str) -> LazyTensor:
    """The tensor in another dtype once it is made; None, and integers, leave it as it is.

    name: what a person knows it by. Making it raises UserError if the dtype cannot hold it.
    """
    source = as_lazy(tensor)
    if dtype is None or not source.dtype.is_floating_point or source.dtype == dtype:
        return source
    return LazyTensor(dtype, source.shape, lambda: _cast(source.read(), dtype, name))


def combined(
    tensors: Sequence[Tensor | LazyTensor], combine: Callable[[Sequence[Tensor]], Tensor]
) -> LazyTensor:
    """What a function makes of tensors, made when it is needed; its shape is found without data."""
    sources = [as_lazy(tensor) for tensor in tensors]
    shadows = [torch.empty(one.shape, dtype=one.dtype, device="meta") for one in sources]
    shadow = combine(shadows)
    return LazyTensor(shadow.dtype, shadow.shape, lambda: combine([one.read() for one in sources]))


def _cast(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    result, limit = tensor.to(dtype), torch.finfo(dtype).max
    if limit >= torch.finfo(tensor.dtype).max or not tensor.numel():
        return result
    low, high = tensor.aminmax()  # five times as fast as a look at each result
    is_inside = -limit <= low.item() and high.item() <= limit
    if not is_inside and bool((result.isinf() & tensor.isfinite()).any()):
        raise UserError(
            f"the tensor {name} has numbers from {low.item():.3g} to {high.item():.3g}",
            f"{dtype} holds numbers up to {limit:.3g}",
            'Choose "bf16", "fp32" or "keep" as precision',
        )
    return result


def _unreadable_error(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: the file cannot be read ({(error.strerror or str(error)).lower()})",
        remedy="Check the path, the rights to read it and the disk",
    )
