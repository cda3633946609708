"""Reading of single tensors from safetensors and pickle files, without executing code.

A tensor is read by its offset into its own memory. Memory-mapping would count the file's pages as
the process's memory, and would break when the file is replaced.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Size, Tensor

from onetrainer.errors import UserError
from onetrainer.tensor_files.entries import TensorEntry, TensorTable
from onetrainer.tensor_files.table import read_table

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
"""Dtypes by safetensors' names, in the order in which its library writes tensors."""

BUFFER_BYTES = 4 << 20  # a multiple of every dtype's size

PRECISIONS: Mapping[str, torch.dtype | None] = {
    "keep": None,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
"""Names of a file's precision; None keeps each tensor's own."""


@dataclass(frozen=True)
class LazyTensor:
    """A tensor that is created when it is needed.

    Attributes:
        read: Returns it on the CPU in this dtype and shape, newly each time.
    """

    dtype: torch.dtype
    shape: Size
    read: Callable[[], Tensor]

    def numel(self) -> int:
        """Return the number of elements."""
        return self.shape.numel()

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize


@dataclass(frozen=True)
class TensorReader:
    """Open tensor files; a later file's tensor replaces one of the same name. Not thread-safe.

    Attributes:
        file_indices: Index of the file of each tensor, by name.
        buffer: Memory for all casts: buffers allocated between tensors that stay would fragment the
            memory.
    """

    tables: Sequence[TensorTable]
    files: Sequence[BinaryIO]
    file_indices: Mapping[str, int]
    buffer: Tensor

    @property
    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self.file_indices)

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the files' headers."""
        return {key: value for table in self.tables for key, value in table.metadata.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.file_indices

    def entry(self, name: str) -> TensorEntry:
        """Return a tensor's header entry; KeyError for an unknown name."""
        return self.tables[self.file_indices[name]].entries[name]

    def path(self, name: str) -> Path:
        """Return the file of a tensor; KeyError for an unknown name."""
        return self.tables[self.file_indices[name]].path

    def shape(self, name: str) -> Size:
        """Return a tensor's shape; KeyError for an unknown name."""
        return Size(self.entry(name).shape)

    def dtype(self, name: str) -> torch.dtype:
        """Return a tensor's dtype; raise UserError if torch has no such dtype."""
        dtype_name = self.entry(name).dtype
        if dtype_name not in DTYPES:
            raise UserError(
                f"{self.path(name).name}: the tensor {name} is stored as {dtype_name}",
                "Expected one of " + ", ".join(DTYPES),
                "Choose another version of this model",
            )
        return DTYPES[dtype_name]

    def read(self, name: str) -> Tensor:
        """Read a tensor to the CPU in the file's dtype, contiguous, in its own memory."""
        entry, dtype = self.entry(name), self.dtype(name)
        data = torch.empty(entry.size, dtype=torch.uint8)
        self._read_bytes(data, name, 0)
        elements = data.view(dtype)
        if entry.strides is None:
            return elements.reshape(entry.shape)
        return elements.as_strided(entry.shape, entry.strides).contiguous()

    def read_as(self, name: str, dtype: torch.dtype) -> Tensor:
        """Read a tensor to the CPU in another dtype, without ever holding all of it in the file's.

        A few MiB at a time, which stay in the processor's cache: four times as fast as reading a
        large tensor before casting it (measured on the CPU, fp16 to bf16).
        """
        entry, stored = self.entry(name), self.dtype(name)
        if entry.strides is not None or stored == dtype or not entry.shape:
            return self.read(name).to(dtype)
        result = torch.empty(entry.shape, dtype=dtype)
        flat = result.view(-1)
        for start in range(0, entry.size, BUFFER_BYTES):
            data = self.buffer[: min(BUFFER_BYTES, entry.size - start)]
            self._read_bytes(data, name, start)
            first = start // stored.itemsize
            flat[first : first + len(data) // stored.itemsize].copy_(data.view(stored))
        return result

    def lazy(self, name: str) -> LazyTensor:
        """Return a tensor that is read when it is needed, while the reader is open."""
        return LazyTensor(self.dtype(name), self.shape(name), lambda: self.read(name))

    def _read_bytes(self, target: Tensor, name: str, start: int) -> None:
        """Fill `target` with a tensor's bytes from offset `start` on."""
        file = self.files[self.file_indices[name]]
        file.seek(self.entry(name).offset + start)
        memory, done = target.numpy().data, 0
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
    """Open the tensors of a file, or of a file's shards; raise UserError if unreadable."""
    with ExitStack() as stack:
        tables, files = list[TensorTable](), list[BinaryIO]()
        for path in [paths] if isinstance(paths, Path) else paths:
            try:
                tables.append(read_table(path))
                files.append(stack.enter_context(path.open("rb", buffering=0)))
            except OSError as error:
                raise _unreadable_error(path, error) from error
        indices = {name: index for index, table in enumerate(tables) for name in table.entries}
        yield TensorReader(tables, files, indices, torch.empty(BUFFER_BYTES, dtype=torch.uint8))


def as_lazy(tensor: Tensor | LazyTensor) -> LazyTensor:
    """Return the tensor as a lazy one on the CPU; a meta tensor stays one."""
    if isinstance(tensor, LazyTensor):
        return tensor
    return LazyTensor(
        tensor.dtype, tensor.shape, lambda: tensor if tensor.is_meta else tensor.cpu()
    )


def cast_lazily(tensor: Tensor | LazyTensor, dtype: torch.dtype | None, *, name: str) -> LazyTensor:
    """Return a lazy tensor in another dtype; None, and integers, keep the tensor's own.

    name: Label for messages. Reading raises UserError if the dtype cannot hold the values.
    """
    source = as_lazy(tensor)
    if dtype is None or not source.dtype.is_floating_point or source.dtype == dtype:
        return source
    return LazyTensor(dtype, source.shape, lambda: _cast(source.read(), dtype, name))


def combine_lazily(
    tensors: Sequence[Tensor | LazyTensor], combine: Callable[[Sequence[Tensor]], Tensor]
) -> LazyTensor:
    """Return a function's result as a lazy tensor; its shape is computed without data."""
    sources = [as_lazy(tensor) for tensor in tensors]
    shadows = [torch.empty(source.shape, dtype=source.dtype, device="meta") for source in sources]
    shadow = combine(shadows)
    return LazyTensor(
        shadow.dtype, shadow.shape, lambda: combine([source.read() for source in sources])
    )


def _cast(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    result, limit = tensor.to(dtype), torch.finfo(dtype).max
    if limit >= torch.finfo(tensor.dtype).max or not tensor.numel():
        return result
    low, high = tensor.aminmax()  # five times as fast as isfinite on the result
    is_inside = -limit <= low.item() and high.item() <= limit
    if not is_inside and bool((result.isinf() & tensor.isfinite()).any()):
        raise UserError(
            f"the tensor {name} has values from {low.item():.3g} to {high.item():.3g}",
            f"{dtype} holds values up to {limit:.3g}",
            'Choose "bf16", "fp32" or "keep" as precision',
        )
    return result


def _unreadable_error(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path}: the file cannot be read ({(error.strerror or str(error)).lower()})",
        remedy="Check the path, its permissions and the disk",
    )
