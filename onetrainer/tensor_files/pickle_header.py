"""Reading the headers of torch.save files: .ckpt, .pt, .pth and .bin, of every torch since 0.1.

Since torch 1.6 such a file is a zip archive: `NAME/data.pkl` describes the tensors, `NAME/data/KEY`
are their uncompressed storages. Before, it was a stream of pickles (a magic number, the version,
the system, the value, the storages' keys), followed by each storage's length and bytes.
"""

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from onetrainer.errors import UserError
from onetrainer.tensor_files.entries import BYTES, TensorTable
from onetrainer.tensor_files.pickle_names import STORAGES, is_safe_name
from onetrainer.tensor_files.pickle_tensors import Region, find_tensors
from onetrainer.tensor_files.pickle_values import (
    Global,
    Persistent,
    Pickle,
    PickleError,
    read_pickle,
)
from onetrainer.tensor_files.refusals import (
    code_error,
    damaged_error,
    truncated_error,
    unusual_error,
)

MAGIC = 0x1950A86A20F9469CFC6C
MAX_PICKLE = 1 << 25
"""Bytes of the description; Stable Diffusion checkpoints have less than one MiB."""
_USUAL_SIZE = 1 << 22
_LOCAL_HEADER = 30
_COUNT = 8
_ENCRYPTED = 1


def read_archive(path: Path) -> TensorTable:
    """Read the tensor table of a file written by torch 1.6 or later. Raises UserError."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _Archive(path, archive).table()
    except zipfile.BadZipFile as error:
        raise truncated_error(path, "its table of contents, at its end, is missing") from error
    except PickleError as error:
        raise damaged_error(path, str(error)) from error
    except (NotImplementedError, RuntimeError) as error:  # compression that zipfile lacks
        raise unusual_error(path, f"it is packed in an unusual way ({error})") from error


def read_stream(path: Path) -> TensorTable:
    """Read the tensor table of a file written by torch before 1.6. Raises UserError."""
    size = path.stat().st_size
    # The description's length is not stored; the first limit is nearly always enough.
    for limit in (_USUAL_SIZE, MAX_PICKLE):
        with path.open("rb") as file:
            data = file.read(limit)
        try:
            return _read_stream(path, data)
        except PickleError as error:
            if limit >= min(size, MAX_PICKLE):
                raise damaged_error(path, str(error)) from error
    raise AssertionError("the second limit is the last")


class _Archive:
    """A zip archive written by torch."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.members = {member.filename: member for member in archive.infolist()}
        descriptions = [n for n in self.members if PurePosixPath(n).name == "data.pkl"]
        if not descriptions:
            raise UserError(
                f"{path.name}: this is a zip archive, but not a torch model",
                "Expected a .safetensors or .ckpt file",
                "Unpack it and choose the model in it",
            )
        self.description = min(descriptions, key=len)
        self.root = self.description.removesuffix("data.pkl")

    def table(self) -> TensorTable:
        """Return the tensors and the metadata."""
        if f"{self.root}constants.pkl" in self.members:
            raise code_error(self.path, "a TorchScript program")
        if self._small(f"{self.root}byteorder", b"little") != b"little":
            raise unusual_error(self.path, "its numbers are big-endian")
        data = self._small(self.description, b"")
        pickle = read_pickle(data, 0, lambda named: _require_harmless(self.path, named))
        contents = find_tensors(pickle.value, self._locate)
        return TensorTable(self.path, contents.entries, contents.metadata, "pickle")

    def _small(self, name: str, default: bytes) -> bytes:
        """Return a member's content, `default` if missing. Raises PickleError if too large."""
        member = self.members.get(name)
        if member is None:
            return default
        with self.archive.open(member) as file:
            data = file.read(MAX_PICKLE + 1)
        if len(data) > MAX_PICKLE:
            raise PickleError(f"it is larger than {MAX_PICKLE >> 20} MiB")
        return data

    def _locate(self, key: object) -> Region:
        # Formatting another type of key could take forever.
        if not isinstance(key, str):
            raise PickleError("a storage has no name")
        name = f"{self.root}data/{key}"
        member = self.members.get(name)
        if member is None:
            raise PickleError(f"{name} is missing")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
            raise unusual_error(self.path, "its tensors are compressed or encrypted")
        file = self.archive.fp
        assert file is not None, "the archive is open"
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
            raise PickleError(f"{name} is not where the table of contents says")
        name_length, extra_length = struct.unpack("<HH", header[26:])
        start = member.header_offset + _LOCAL_HEADER + name_length + extra_length
        return Region(start, member.file_size)


def _read_stream(path: Path, data: bytes) -> TensorTable:
    """Read the table from the file's beginning. Raises PickleError if incomplete or invalid."""
    place = 0

    def read() -> Pickle:
        nonlocal place
        pickle = read_pickle(data, place, lambda named: _require_harmless(path, named))
        place = pickle.end
        return pickle

    if read().value != MAGIC:
        raise unusual_error(path, "this is a pickle, but not one of torch")
    read()  # the protocol's version, of which there has only been one
    system = read().value
    if isinstance(system, dict) and system.get("little_endian") is False:
        raise unusual_error(path, "its numbers are big-endian")
    content, keys = read(), read().value
    if not isinstance(keys, list):
        raise PickleError("its storages are not listed")
    regions = _regions(path, keys, _widths(content.references), place)

    def locate(key: object) -> Region:
        if not isinstance(key, str) or key not in regions:
            raise PickleError("a storage is missing")
        return regions[key]

    contents = find_tensors(content.value, locate)
    return TensorTable(path, contents.entries, contents.metadata, "pickle")


def _widths(references: list[Persistent]) -> dict[str, int]:
    """Return the bytes per element of storages by key; the first mention counts, as in torch."""
    widths: dict[str, int] = {}
    for reference in references:
        match reference.key:
            case ("storage", Global() as storage, str() as key, *_) if storage.name in STORAGES:
                widths.setdefault(key, BYTES[STORAGES[storage.name]])
    return widths


def _regions(
    path: Path, keys: list[object], widths: Mapping[str, int], place: int
) -> dict[str, Region]:
    """Return the location of each storage; each is preceded by its length in elements."""
    size = path.stat().st_size
    regions = {}
    with path.open("rb", buffering=0) as file:
        for key in keys:
            if not isinstance(key, str) or key not in widths:
                raise PickleError("a storage that nothing mentions")
            file.seek(place)
            length = file.read(_COUNT)
            if len(length) < _COUNT:
                raise truncated_error(path, f"it ends at {size} bytes, before its tensors do")
            count: int = struct.unpack("<q", length)[0]
            place += _COUNT
            end = place + count * widths[key]
            if count < 0:
                raise PickleError("a storage has a negative length")
            if end > size:
                raise truncated_error(path, f"it has {size} of at least {end} bytes")
            regions[key] = Region(place, end - place)
            place = end
    return regions


def _require_harmless(path: Path, named: Global) -> None:
    if not is_safe_name(named):
        raise code_error(path, str(named))
