"""Read the headers of ordinary PNG, JPEG and WebP files faster than Pillow.

Only unambiguous files are handled: those that follow their format's standard, without anything
that needs interpretation. All others, and damaged ones, are left to Pillow, so that both ways
agree on every file.
Sources: PNG third edition (W3C), section 5; ITU-T T.81 (JPEG), annex B; EXIF 2.32 (CIPA DC-008),
section 4.6.2; RFC 9649 (WebP), section 2.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from onetrainer.images.image_file import EXIF_TAIL, MAX_PIXELS, TRANSPOSED_ORIENTATIONS

_READ_BYTES = 4096
_MOST_TEXT = 1 << 20
_FEW_CHUNKS = 32
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"

_PNG_COLORS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Allowed bit depths of each color type."""
_PALETTE = 3
_PNG_ALPHA = {0: 2, 2: 6}
_MIN_BYTES = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"pHYs": 9}
_INERT = frozenset([b"PLTE", b"tRNS", b"bKGD", b"tIME", b"sBIT", b"hIST", *_MIN_BYTES])
_MEANING = (b"exif", b"xmp", b"transparency", b"raw profile")
"""Names of text chunks that may change how an image is displayed."""

_EXIF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_ORIENTATION, _SHORT = 0x0112, 3

Quick = tuple[int, int, bool]
"""Upright width and height, and whether the image may be transparent."""


class _Unsure(Exception):
    """Something that is left to Pillow."""


class _File:
    """The bytes of an open file by position; missing ones raise _Unsure."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.size = os.fstat(number).st_size
        # A small file is read at once, as its end is needed as well.
        first = self.size if self.size <= EXIF_TAIL else _READ_BYTES
        self._start, self._bytes = 0, os.pread(number, first, 0)

    def at(self, position: int, length: int) -> bytes:
        begin = position - self._start
        if begin < 0 or begin + length > len(self._bytes):
            self._bytes = os.pread(self._number, max(length, _READ_BYTES), position)
            self._start = position
            begin = 0
        found = self._bytes[begin : begin + length]
        if len(found) < length:
            raise _Unsure
        return found

    def tail(self) -> bytes:
        length = min(self.size, EXIF_TAIL)
        return self.at(self.size - length, length)


def quick_header(path: Path) -> Quick | None:
    """Return the header of an ordinary image; None if it is not one. Raises OSError."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        file = _File(number)
        start = file.at(0, 16)
        if start.startswith(_PNG):
            width, height, has_alpha = _png(file)
        elif start.startswith(_JPEG):
            width, height, has_alpha = _jpeg(file)
        elif start[:4] == b"RIFF" and start[8:12] == b"WEBP":
            width, height, has_alpha = _webp(file)
        else:
            return None
    except (_Unsure, struct.error, zlib.error):
        return None
    finally:
        os.close(number)
    return (width, height, has_alpha) if 0 < width * height <= MAX_PIXELS else None


def _png(file: _File) -> Quick:
    kinds = _png_chunks(file)
    kind, position, length = next(kinds, (b"", 0, 0))
    if kind != b"IHDR" or length != 13:
        raise _Unsure
    width, height, depth, color, _, odd, _ = struct.unpack(">IIBBBBB", file.at(position, 13))
    if odd or depth not in _PNG_COLORS.get(color, ()):
        raise _Unsure
    seen: set[bytes] = set()
    exif_orientation = 0
    for kind, position, length in kinds:
        if kind in seen and kind in (b"eXIf", b"tRNS", b"PLTE"):
            raise _Unsure
        seen.add(kind)
        if kind == b"eXIf":
            exif_orientation = _exif_orientation(file.at(position, length))
        elif not _is_irrelevant_chunk(kind, file.at(position, length), _PNG_ALPHA.get(color, 1)):
            raise _Unsure
    if color == _PALETTE and b"PLTE" not in seen:
        raise _Unsure
    if (
        not exif_orientation
        and not _ends_with_pixels(file, position + length + 4)
        and b"eXIf" in file.tail()
    ):
        raise _Unsure
    # Pillow gives no alpha channel for grayscale of 16 bits.
    has_alpha = color >= 4 or (b"tRNS" in seen and (color, depth) != (0, 16))
    return (
        (height, width, has_alpha)
        if exif_orientation in TRANSPOSED_ORIENTATIONS
        else (width, height, has_alpha)
    )


def _png_chunks(file: _File) -> Iterator[tuple[bytes, int, int]]:
    """Yield type, position and length of every chunk before the pixels, checking checksums."""
    position = len(_PNG)
    while True:
        length, kind = struct.unpack(">I4s", file.at(position, 8))
        if kind == b"IDAT":
            return
        if length > _MOST_TEXT:
            raise _Unsure
        chunk = file.at(position, length + 12)
        if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
            raise _Unsure
        yield kind, position + 8, length
        position += length + 12


def _ends_with_pixels(file: _File, position: int) -> bool:
    """Return whether nothing follows the pixels, if that can be seen quickly.

    place: position of the first chunk of pixels.
    """
    length, kind = struct.unpack(">I4s", file.at(position, 8))
    is_quick = file.size <= length * _FEW_CHUNKS
    while is_quick and kind == b"IDAT":
        position += length + 12
        length, kind = struct.unpack(">I4s", file.at(position, 8))
    return is_quick and kind == b"IEND" and position + 12 == file.size


def _is_irrelevant_chunk(kind: bytes, data: bytes, alpha: int) -> bool:
    """Return whether a chunk is valid and affects neither size nor orientation.

    alpha: least number of bytes of a transparency chunk.
    """
    if kind in _INERT:
        return len(data) >= (alpha if kind == b"tRNS" else _MIN_BYTES.get(kind, 0))
    name, _, rest = data.partition(b"\0")
    if kind == b"iCCP":
        inner = zlib.decompressobj()
        inner.decompress(rest[1:], _MOST_TEXT)
        return rest[:1] == b"\0" and not inner.unconsumed_tail
    is_plain = kind == b"tEXt" or (kind == b"iTXt" and rest[:1] == b"\0")
    return is_plain and not any(word in name.lower() for word in _MEANING)


def _jpeg(file: _File) -> Quick:
    position, size, exif = 2, (0, 0), b""
    while True:
        mark, kind, length = struct.unpack(">BBH", file.at(position, 4))
        if mark != 0xFF or length < 2:
            raise _Unsure
        data, position = file.at(position + 4, length - 2), position + 2 + length
        if kind in (0xC0, 0xC1, 0xC2):
            depth, height, width, layers = struct.unpack(">BHHB", data[:6])
            if size != (0, 0) or depth != 8 or layers not in (1, 3, 4):
                raise _Unsure
            if len(data) != 6 + 3 * layers:
                raise _Unsure
            size = width, height
        elif kind == 0xDA:
            break
        elif kind == 0xE1 and data.startswith(b"Exif\0\0"):
            if exif:
                raise _Unsure
            exif = data
        elif not _is_sound_segment(kind, data):
            raise _Unsure
    turned = bool(exif) and _exif_orientation(exif) in TRANSPOSED_ORIENTATIONS
    return (size[1], size[0], False) if turned else (*size, False)


def _is_sound_segment(kind: int, data: bytes) -> bool:
    """Return whether a segment is valid and needs no interpretation."""
    match kind:
        case 0xDB:  # quantization tables
            position = 0
            while position < len(data):
                position += 129 if data[position] >> 4 else 65
            return position == len(data)
        case 0xE0:
            return not data.startswith(b"JFIF") or len(data) >= 12
        case 0xE1:
            return b"Orientation" not in data
        case 0xE2:
            is_profile = data.startswith(b"ICC_PROFILE\0") and len(data) >= 14
            return is_profile or not data.startswith((b"ICC_PROFILE", b"MPF", b"FPXR"))
        case 0xEE:
            return not data.startswith(b"Adobe") or len(data) >= 12
        case 0xC4 | 0xDD | 0xFE:
            return True
        case _:
            return 0xE3 <= kind <= 0xEF


def _webp(file: _File) -> Quick:
    length = int.from_bytes(file.at(4, 4), "little")
    end = length + 8
    if end > file.size or length % 2:
        raise _Unsure
    canvas, flags, has_alpha, frame, exif_orientation = (0, 0), 0, False, (0, 0), 0
    for kind, position, size in _webp_chunks(file, end):
        if kind == b"VP8X" and position == 20 and size == 10:
            flags = file.at(position, 1)[0]
            wide = file.at(position + 4, 6)
            canvas = _side(wide[:3]), _side(wide[3:])
        elif kind == b"VP8 " or (kind == b"VP8L" and not has_alpha):
            if frame != (0, 0):
                raise _Unsure
            read = _vp8_header if kind == b"VP8 " else _vp8l_header
            width, height, shows = read(file.at(position, 10), size)
            frame, has_alpha = (width, height), has_alpha or shows
        elif kind == b"ALPH" and canvas != (0, 0) and frame == (0, 0) and not has_alpha:
            has_alpha = True
        elif kind == b"EXIF" and canvas != (0, 0) and not exif_orientation and size <= _MOST_TEXT:
            exif_orientation = _exif_orientation(file.at(position, size))
        elif kind != b"ICCP" or canvas == (0, 0) or frame != (0, 0):
            raise _Unsure
    # Flags must agree with alpha and EXIF; reserved ones must be unset.
    is_odd = flags & ~0x38 or (has_alpha, bool(exif_orientation)) != (
        bool(flags & 0x10),
        bool(flags & 0x08),
    )
    if canvas != (0, 0) and (canvas != frame or is_odd):
        raise _Unsure
    width, height = frame
    return (
        (height, width, has_alpha)
        if exif_orientation in TRANSPOSED_ORIENTATIONS
        else (width, height, has_alpha)
    )


def _webp_chunks(file: _File, end: int) -> Iterator[tuple[bytes, int, int]]:
    position = 12
    while position < end:
        kind, size = struct.unpack("<4sI", file.at(position, 8))
        padded = size + size % 2
        if position + 8 + padded > end:
            raise _Unsure
        yield kind, position + 8, size
        position += 8 + padded


def _side(data: bytes) -> int:
    return int.from_bytes(data, "little") + 1


def _vp8_header(data: bytes, size: int) -> Quick:
    """Parse the frame header of a VP8 stream (RFC 6386, section 9.1)."""
    tag = int.from_bytes(data[:3], "little")
    width, height = (side & 0x3FFF for side in struct.unpack("<HH", data[6:10]))
    is_shown = not tag & 1 and (tag >> 1) & 7 <= 3 and (tag >> 4) & 1
    if (
        size < len(data)
        or not is_shown
        or data[3:6] != b"\x9d\x01\x2a"
        or tag >> 5 >= size
        or not width * height
    ):
        raise _Unsure
    return width, height, False


def _vp8l_header(data: bytes, size: int) -> Quick:
    """Parse the header of a VP8L stream (RFC 9649, section 3.4)."""
    bits = int.from_bytes(data[1:5], "little")
    if data[0] != 0x2F or bits >> 29 or size < 5:
        raise _Unsure
    return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1, bool(bits >> 28 & 1)


def _exif_orientation(block: bytes) -> int:
    """Return the EXIF orientation, 1 if there is none; raise _Unsure if an entry is invalid."""
    for _ in range(2):
        block = block.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None:
        raise _Unsure
    (position,) = struct.unpack_from(f"{order}I", block, 4)
    (count,) = struct.unpack_from(f"{order}H", block, position)
    exif_orientation = 1
    for number in range(count):
        entry = position + 2 + 12 * number
        tag, kind, length, offset = struct.unpack_from(f"{order}HHII", block, entry)
        size = _EXIF_SIZES.get(kind, 0) * length
        if not size or (size > 4 and offset + size > len(block)):
            raise _Unsure
        if tag == _ORIENTATION:
            if (kind, length) != (_SHORT, 1) or exif_orientation != 1:
                raise _Unsure
            (exif_orientation,) = struct.unpack_from(f"{order}H", block, entry + 8)
    return exif_orientation if exif_orientation in range(1, 9) else 1
