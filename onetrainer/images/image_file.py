"""Open an image file: supported formats, refused ones, and orientation.

Shared by the index, which reads headers, and by training, which reads pixels, so that both treat
images alike. Pillow is imported when a file is opened, so that importing this module is cheap.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from onetrainer.errors import KnownError
from onetrainer.images.file_kind import HEAD, kind_of

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "AVIF")
"""Supported formats, recognized by content; a fixed list keeps rare decoders from unknown data."""

MAX_PIXELS = 500_000_000
"""Larger images are refused: 500 megapixels take 1.5 GB as RGB. Pillow's own limit is 179."""

TOO_LARGE = f"larger than {MAX_PIXELS // 10**6} megapixels, the largest supported size"

DEEP_MODES = frozenset(["I;16", "I;16L", "I;16B", "I;16N"])
"""Grayscale of 16 bits: values from 0 to 65535, which most of Pillow would clip at 255."""

MODES = DEEP_MODES | frozenset(
    ["1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr"]
)
"""Supported color modes of Pillow. Not 32-bit "I" and "F": their range of values is unknown, and a
wrong guess would train on black images.
"""

READ_ERRORS: tuple[type[Exception], ...] = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError),
    *(RuntimeError, MemoryError, struct.error, zlib.error),
)
"""Exceptions that Pillow's decoders raise on damaged files (found by damaging files at random)."""

TRANSPOSED_ORIENTATIONS = frozenset([5, 6, 7, 8])
"""EXIF orientations that exchange width and height."""

EXIF_TAIL = 1 << 17
"""Bytes at a PNG's end that are searched for its EXIF block, which is at most 64 kB."""

_NONE = "not a PNG, JPEG, WebP, BMP, GIF, TIFF or AVIF image"
_ORIENTATION_TAG = 0x0112
_TRANSPOSES = (
    *("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE"),
    *("ROTATE_270", "TRANSVERSE", "ROTATE_90"),
)
"""Pillow's transpose for the EXIF orientations 2 to 8 (CIPA DC-008, tag 0x0112). Pillow's
exif_transpose is not used: it also rewrites the EXIF block and fails on damaged ones.
"""


class ImageError(KnownError):
    """An image that cannot be used; reason completes "name: …"."""

    failure = "image"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@contextmanager
def open_image(file: BinaryIO, path: Path) -> Iterator["Image"]:
    """Open the first frame of an image with its header read and its pixels not yet.

    file: Must stay open. path: Names the image in errors. Raises ImageError for anything that
    Pillow raises, also in the caller's block, which therefore should only read.
    """
    from PIL import Image

    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    # Pillow has this limit in a module variable only. It is not restored, as other threads may
    # be opening images meanwhile.
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with Image.open(file, formats=FORMATS) as image:
            _check(image, path)
            yield image
    except ImageError:
        raise
    except bombs as error:
        raise ImageError(path, TOO_LARGE) from error
    except READ_ERRORS as error:
        raise ImageError(path, _reason(error, file)) from error


def orientation(image: "Image", file: BinaryIO) -> int:
    """Return the EXIF orientation of a just opened image, 1 (upright) to 8.

    Source: EXIF 2.32 (CIPA DC-008), tag 0x0112.
    """
    from PIL import Image

    if image.format == "TIFF":
        return 1  # Pillow rotates these itself, and gives the rotated size from the start
    if image.format == "PNG" and "exif" not in image.info:
        tail = _png_exif_tail(file)
        if tail is not None:
            image.info["exif"] = tail
    try:
        # The class's own method: PNG's decodes all pixels in search of a late EXIF block.
        value = Image.Image.getexif(image).get(_ORIENTATION_TAG, 1)
    except READ_ERRORS:
        return 1  # with a damaged EXIF block the image may still be fine
    return value if value in range(1, 9) else 1


def upright_size(image: "Image", exif_orientation: int) -> tuple[int, int]:
    """Return width and height after applying the orientation."""
    width, height = image.size
    return (height, width) if exif_orientation in TRANSPOSED_ORIENTATIONS else (width, height)


def apply_orientation(image: "Image", exif_orientation: int) -> "Image":
    """Return the image upright by its EXIF orientation."""
    from PIL import Image

    if exif_orientation == 1:
        return image
    return image.transpose(Image.Transpose[_TRANSPOSES[exif_orientation - 2]])


def opaque(image: "Image") -> "Image":
    """Return an image of 8 bits as "RGB", with transparency as white, like paper.

    Black would be trained as a background. For animated images it is the first frame.
    """
    from PIL import Image

    if not image.has_transparency_data:
        if image.mode != "RGB":
            return image.convert("RGB")
        image.load()  # and no copy, which would take as much memory again
        return image
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")


def _check(image: "Image", path: Path) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ImageError(path, TOO_LARGE)
    if image.mode not in MODES:
        raise ImageError(path, f'color mode "{image.mode}" is not supported; save it as 8-bit RGB')


def _reason(error: Exception, file: BinaryIO) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, MemoryError):
        return "there is not enough memory to read it"
    if "truncated" in str(error).lower():
        return "damaged: its end is missing, as after an incomplete copy"
    if not isinstance(error, UnidentifiedImageError):
        return f"damaged: {error}" if str(error) else "damaged"
    file.seek(0)
    head = file.read(HEAD)
    if not head:
        return "the file is empty"
    kind = kind_of(head)
    if kind is None:
        return f"{_NONE}, or damaged at its beginning"
    if not kind.suffix:
        return f"{_NONE}, but {kind.noun}; {kind.remedy}"
    return f"{kind.noun} that cannot be decoded: damaged, or of a variety that is not supported"


def _png_exif_tail(file: BinaryIO) -> bytes | None:
    """Return the EXIF block of a PNG that has it behind its pixels; None if there is none.

    The file position is kept. The checksum distinguishes the block from pixels that look like one.
    Source: PNG third edition (W3C), section 5.3, chunk layout, and 11.3.4.5, eXIf.
    """
    place = file.tell()
    size = file.seek(0, 2)
    start = file.seek(max(0, size - EXIF_TAIL))
    tail = file.read(size - start)
    file.seek(place)
    if b"eXIf" not in tail:  # much faster than to search from the end, and nearly always so
        return None
    at = max(4, tail.rfind(b"eXIf"))
    length = int.from_bytes(tail[at - 4 : at], "big")
    end = at + 4 + length
    checksum = int.from_bytes(tail[end : end + 4], "big")
    intact = len(tail) >= end + 4 and zlib.crc32(tail[at:end]) == checksum
    return tail[at + 4 : end] if intact else None
