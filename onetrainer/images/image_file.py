"""Opening one picture file: which formats are read, what is refused, and which way up it is.

Shared by the index, which reads headers, and by training, which reads pixels, so that both see
the same picture. Pillow is imported when a file is opened: naming this module costs nothing.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "AVIF")
"""What is read, by content and not by name; a list, so that no rarer decoder meets strange data."""

MAX_PIXELS = 500_000_000
"""Larger pictures are refused: 500 megapixels take 1.5 GB as RGB. Pillow's own limit is 179."""

TOO_LARGE = f"larger than {MAX_PIXELS // 10**6} megapixels, the most that is read"

DEEP_MODES = frozenset(["I;16", "I;16L", "I;16B", "I;16N"])
"""Greyscale of 16 bits: values from 0 to 65535, which most of Pillow would clip at 255."""

MODES = DEEP_MODES | frozenset(
    ["1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr"]
)
"""Pillow's names of the colour modes that are read. Not 32-bit "I" and "F": their range of
values is anybody's guess, and a wrong guess trains on black pictures."""

READ_ERRORS: tuple[type[Exception], ...] = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError),
    *(RuntimeError, MemoryError, struct.error, zlib.error),
)
"""What Pillow's decoders raise on damaged files (found by damaging files at random)."""

TRANSPOSED_ORIENTATIONS = frozenset([5, 6, 7, 8])
"""The EXIF orientations that exchange width and height."""

EXIF_TAIL = 1 << 17
"""How much of a PNG's end is searched for its EXIF block, which is at most 64 kB."""

_ORIENTATION_TAG = 0x0112


class ImageError(Exception):
    """A picture that cannot be used. reason: why, in words that finish "name: …"."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@contextmanager
def open_image(file: BinaryIO, path: Path) -> Iterator["Image"]:
    """The first frame of a picture, its header read and its pixels not yet.

    file: the picture's bytes, which must stay open. path: names the picture in errors.
    Raises PictureError for whatever Pillow raises meanwhile, in the caller's block too, so that
    block should do nothing but read.
    """
    from PIL import Image

    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    # Pillow has this limit in a module variable only. It stays: were it put back, pictures that
    # other threads open meanwhile would meet the lower one.
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
    """How a just opened picture is to be turned to stand upright: EXIF's 1 (not at all) to 8.

    Source: EXIF 2.32 (CIPA DC-008), tag 0x0112.
    """
    from PIL import Image

    if image.format == "TIFF":
        return 1  # Pillow turns these itself, and gives the turned size from the start
    if image.format == "PNG" and "exif" not in image.info:
        tail = _png_exif_tail(file)
        if tail is not None:
            image.info["exif"] = tail
    try:
        # The class's own method: PNG's decodes all pixels in search of a late EXIF block.
        value = Image.Image.getexif(image).get(_ORIENTATION_TAG, 1)
    except READ_ERRORS:
        return 1  # a damaged EXIF block says nothing, and the picture may be sound
    return value if value in range(1, 9) else 1


def upright_size(image: "Image", exif_orientation: int) -> tuple[int, int]:
    """Width and height after turning. turn: what `orientation` gave."""
    width, height = image.size
    return (height, width) if exif_orientation in TRANSPOSED_ORIENTATIONS else (width, height)


def _check(image: "Image", path: Path) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ImageError(path, TOO_LARGE)
    if image.mode not in MODES:
        raise ImageError(path, f'colour mode "{image.mode}" is not read; save it as 8-bit RGB')


def _reason(error: Exception, file: BinaryIO) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, MemoryError):
        return "there is not enough memory to read it"
    if "truncated" in str(error).lower():
        return "damaged: its end is missing, as after an incomplete copy"
    if not isinstance(error, UnidentifiedImageError):
        return f"damaged: {error}" if str(error) else "damaged"
    file.seek(0)
    if not file.read(1):
        return "the file is empty"
    return "not a PNG, JPEG, WebP, BMP, GIF, TIFF or AVIF picture, or damaged at its beginning"


def _png_exif_tail(file: BinaryIO) -> bytes | None:
    """The EXIF block of a PNG that has it behind its pixels; None if there is none.

    Leaves the file where it was. The block's checksum tells it from pixels that look like one.
    Source: PNG third edition (W3C), section 5.3, chunk layout, and 11.3.4.5, eXIf.
    """
    place = file.tell()
    size = file.seek(0, 2)
    start = file.seek(max(0, size - EXIF_TAIL))
    tail = file.read(size - start)
    file.seek(place)
    at = tail.rfind(b"eXIf")
    if at < 4:
        return None
    length = int.from_bytes(tail[at - 4 : at], "big")
    end = at + 4 + length
    checksum = int.from_bytes(tail[end : end + 4], "big")
    intact = len(tail) >= end + 4 and zlib.crc32(tail[at:end]) == checksum
    return tail[at + 4 : end] if intact else None
