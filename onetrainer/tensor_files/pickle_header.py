"""Reading the headers of torch.save files: .ckpt, .pt, .pth and .bin, of every torch since 0.1.

Since torch 1.6 such a file is a zip archive: `NAME/data.pkl` describes the tensors, `NAME/data/KEY`
are their uncompressed storages. Before, it was a stream of pickles (a magic number, the version,
the system, the value, the storages' keys), followed by each storage's length and bytes.
"""

import io
import mmap
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from onetrainer.errors import UserError
from onetrainer.tensor_files.entries import BYTES, TensorTable
from onetrainer.tensor_files.pickle_names import STORAGES, is_safe_name
from onetrainer.tensor_files.pickle_tensors import Region, find_tensors
from onetrainer.tensor_files.refusals import (
    code_error,
    damaged_error,
    truncated_error,
    unusual_error,
)
from onetrainer.tensor_files.unpickler import Global, Persistent, PickleError, Unpickler

MAX_PICKLE = 1 << 25
"""Bytes of the description; Stable Diffusion checkpoints have less than one MiB."""
_MAGIC = 0x1950A86A20F9469CFC6C
_LOCAL_HEADER = 30
_COUNT = 8
_ENCRYPTED = 1


def read_archive(path: Path) -> TensorTable:
    """Read the tensor table of a file written by torch 1.6 or later. Raises UserError."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(path, archive)
    except zipfile.BadZipFile as error:
        raise truncated_error(path, "its table of contents, at its end, is missing") from error
    # PickleError is a ValueError; the others are what zipfile raises on damaged headers.
    except (ValueError, LookupError, EOFError, OSError, struct.error, zlib.error) as error:
        raise damaged_error(path, str(error)) from error
    except (NotImplementedError, RuntimeError) as error:  # compression that zipfile lacks
        raise unusual_error(path, f"it is packed in an unusual way ({error})") from error


def _read_archive(path: Path, archive: zipfile.ZipFile) -> TensorTable:
    members = {member.filename: member for member in archive.infolist()}
    descriptions = [name for name in members if PurePosixPath(name).name == "data.pkl"]
    if not descriptions:
        raise UserError(
            f"{path.name}: this is a zip archive, but not a torch model",
            "Expected a .safetensors or .ckpt file",
            "Unpack it and choose the model in it",
        )
    root = min(descriptions, key=len).removesuffix("data.pkl")

    def content(name: str) -> bytes:
        with archive.open(root + name) as file:
            data = file.read(MAX_PICKLE + 1)
        if len(data) > MAX_PICKLE:
            raise PickleError(f"it is larger than {MAX_PICKLE >> 20} MiB")
        return data

    def locate(key: object) -> Region:
        # Formatting another type of key could take forever.
        if not isinstance(key, str):
            raise PickleError("a storage has no name")
        member = members.get(f"{root}data/{key}")
        if member is None:
            raise PickleError(f"{root}data/{key} is missing")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
            raise unusual_error(path, "its tensors are compressed or encrypted")
        return Region(_data_start(archive, member), member.file_size)

    if f"{root}constants.pkl" in members:
        raise code_error(path, "a TorchScript program")
    if f"{root}byteorder" in members and content("byteorder") != b"little":
        raise unusual_error(path, "its numbers are big-endian")
    value = _unpickler(path, io.BytesIO(content("data.pkl"))).load()
    return TensorTable(path, *find_tensors(value, locate), "pickle")


def _data_start(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Return where a member's bytes begin, behind its local header."""
    assert archive.fp is not None, "the archive is open"
    archive.fp.seek(member.header_offset)
    header = archive.fp.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise PickleError(f"{member.filename} is not where the table of contents says")
    name, extra = struct.unpack("<HH", header[26:])
    return int(member.header_offset + _LOCAL_HEADER + name + extra)


def read_stream(path: Path) -> TensorTable:
    """Read the tensor table of a file written by torch before 1.6. Raises UserError."""
    size = min(path.stat().st_size, MAX_PICKLE)
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as start:
        try:
            return _read_stream(path, start)
        except PickleError as error:
            raise damaged_error(path, str(error)) from error


def _read_stream(path: Path, file: mmap.mmap) -> TensorTable:
    if _unpickler(path, file).load() != _MAGIC:
        raise unusual_error(path, "this is a pickle, but not one of torch")
    _unpickler(path, file).load()  # the protocol's version, of which there has only been one
    system = _unpickler(path, file).load()
    if isinstance(system, dict) and system.get("little_endian") is False:
        raise unusual_error(path, "its numbers are big-endian")
    content = _unpickler(path, file)
    value = content.load()
    keys = _unpickler(path, file).load()
    if not isinstance(keys, list):
        raise PickleError("its storages are not listed")
    regions = _regions(path, keys, _widths(content.references), file.tell())

    def locate(key: object) -> Region:
        if not isinstance(key, str) or key not in regions:
            raise PickleError("a storage is missing")
        return regions[key]

    return TensorTable(path, *find_tensors(value, locate), "pickle")


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


def _unpickler(path: Path, file: io.BytesIO | mmap.mmap) -> Unpickler:
    def require_harmless(named: Global) -> None:
        if not is_safe_name(named):
            raise code_error(path, str(named))

    return Unpickler(file, require_harmless)
