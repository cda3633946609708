"""Compact image features, to find near-duplicates and images without fine detail.

Pillow and numpy are imported when an image is read, so that importing this module is cheap.
"""

import io
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.images.decoding import decoding
from onetrainer.images.detail import Detail, detail_of
from onetrainer.images.image_file import (
    DEEP_MODES,
    READ_ERRORS,
    ImageError,
    apply_orientation,
    opaque,
    open_image,
    orientation,
)
from onetrainer.images.image_index import ImageIndex

if TYPE_CHECKING:
    from PIL.Image import Image

THUMB = 20
"""Side of a thumbnail in pixels."""

_HASH_SIDE = 32  # pixels a side that a hash is made of

MIN_CONTRAST = 4.0
"""Images of less contrast, of 255, are compared by color only."""

VERSION = 1
"""Increased whenever features change, so that older cached ones are not used."""

_DEEP_STEP = 257  # from 16 bits to 8
# The 64 lowest frequencies (down, across), without the mean brightness.
_BY_NUMBER = sorted(((d, a) for d in range(9) for a in range(9)), key=lambda p: (sum(p), max(p), p))
_LOWEST = tuple(zip(*_BY_NUMBER[1:65], strict=True))


@dataclass(frozen=True)
class Features:
    """Features of one image.

    hash: 64 bits that are nearly the same for near-duplicates. mirrored: The hash of the
    horizontally flipped image. thumb: 20 × 20 × 3 values of the whole image for any shape, rows
    from the top. detail: None if the image is too small or has too little contrast.
    """

    hash: int
    mirrored: int
    thumb: bytes
    detail: Detail | None = None

    def pack(self) -> bytes:
        """Return the features as bytes, for `unpack`."""
        detail = self.detail.pack() if self.detail else b""
        numbers = self.hash.to_bytes(8, "big") + self.mirrored.to_bytes(8, "big")
        return numbers + self.thumb + detail


def unpack(data: bytes) -> Features:
    """Return features from bytes packed by this version."""
    end = 16 + 3 * THUMB * THUMB
    detail = Detail.unpack(data[end:]) if data[end:] else None
    first, second = (int.from_bytes(part, "big") for part in (data[:8], data[8:16]))
    return Features(first, second, data[16:end], detail)


def image_features(path: Path, image_index: ImageIndex | None = None) -> Features:
    """Return the features of an image, from the cache if the file is unchanged.

    All pixels are decoded. Damage is recorded but tried again each time, as another version of
    Pillow may read more. Raises ImageError if the pixels cannot be read.
    """
    known = image_index.features(path, VERSION) if image_index else None
    if known:
        return unpack(known)
    try:
        # Together with its digest, so that the file is read once.
        data = image_index.read(path)[0] if image_index else path.read_bytes()
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from error
    with ExitStack() as memory:
        try:
            with io.BytesIO(data) as file, open_image(file, path) as opened_file:
                exif_orientation = orientation(opened_file, file)
                memory.enter_context(decoding(opened_file, path))
                image = as_rgb(opened_file)
        except ImageError as error:
            # Too little memory is not the image's fault.
            if image_index and not isinstance(error.__cause__, MemoryError):
                image_index.store_damage(path, VERSION, error.reason)
            raise
        try:
            features = _features(image, exif_orientation)
        except READ_ERRORS as error:  # memory, above all
            raise ImageError(path, f"cannot be analyzed ({error})") from error
    if image_index:
        image_index.store_features(path, VERSION, features.pack())
    return features


def _features(image: "Image", exif_orientation: int) -> Features:
    from PIL import Image

    box, gray = Image.Resampling.BOX, image.convert("L")
    thumb, small = image.resize((THUMB, THUMB), box), gray.resize((_HASH_SIDE, _HASH_SIDE), box)
    first, second = _hashes(apply_orientation(small, exif_orientation))
    upright = apply_orientation(thumb, exif_orientation)
    return Features(first, second, upright.tobytes(), detail_of(gray))


def as_rgb(image: "Image") -> "Image":
    """Return an image as RGB of 8 bits, with transparency as white; of 16 bits the upper ones."""
    import numpy as np
    from PIL import Image

    if image.mode in DEEP_MODES:
        image = Image.fromarray((np.asarray(image) // _DEEP_STEP).astype(np.uint8))
    return opaque(image)


def _hashes(small: "Image") -> tuple[int, int]:
    """Return the signs of the 64 lowest DCT coefficients, of the image and of its mirror image.

    A mirror image has the same coefficients, with the opposite sign at odd horizontal frequencies.
    Both are 0 for an image without contrast, whose coefficients are noise.
    Source: Zauner 2010, "Implementation and benchmarking of perceptual image hash functions", 3.2.
    """
    import numpy as np

    values = np.asarray(small, dtype=np.float64)
    if values.std() < MIN_CONTRAST:
        return 0, 0
    places = np.arange(_HASH_SIDE) + 0.5
    basis = np.cos(np.pi * np.arange(9)[:, None] * places / _HASH_SIDE)
    down, across = _LOWEST
    waves = (basis @ values @ basis.T)[down, across]
    mirrored = np.where(np.array(across) % 2, -waves, waves)
    first, second = (np.packbits(one > 0).tobytes() for one in (waves, mirrored))
    return int.from_bytes(first, "big"), int.from_bytes(second, "big")
