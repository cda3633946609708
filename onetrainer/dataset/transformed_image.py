"""Load an image and apply its transform: upright, opaque, cropped, with adjusted colors.

Shared by training and by previews. Pillow and numpy are imported when an image is opened, so that
importing this module is cheap.
"""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.images.decoding import HUGE, decoding, decoding_bytes
from onetrainer.images.image_file import (
    DEEP_MODES,
    TRANSPOSED_ORIENTATIONS,
    ImageError,
    apply_orientation,
    opaque,
    open_image,
    orientation,
    upright_size,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

HUGE_MARGIN = 4
"""JPEGs that would take `HUGE` memory are decoded at no less than this many times the target size:
4096 pixels scaled to 500 this way differ by 0.3 of 255 in an image with a photo's spectrum, by 2.7
in one of fine lines. All others are decoded whole, which takes up to 2.5 times as long: a margin of
2 differed by 1.0 and 2.5, and at most 15.
"""

FORMER_MARGIN = 2
"""The same of earlier versions, for all JPEGs."""

DEEP_WHITE = 65535
"""White in 16 bits."""

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in gray. Source: ITU-R BT.601."""

MIDDLE = 0.5
"""The value that contrast does not change. Not the image's own mean: its conditioning image
has another one, so their colors would diverge.
"""

Smoothing = Literal["images", "masks"]


def load_transformed(item: Item, transform: ImageTransform, file: BinaryIO) -> "Image":
    """Load an item's image with its transform, except for color changes.

    file: of item.path. Returns an image of the bucket's size: "RGB", or "F" from 0 to about 65535
    if it has 16 bits. Raises ImageError if the file cannot be read, or its size has changed since
    it was indexed.
    """
    return load_conditioning_image(item.path, transform, file, size=(item.width, item.height))


def load_conditioning_image(
    path: Path, transform: ImageTransform, file: BinaryIO, *, size: tuple[int, int] | None = None
) -> "Image":
    """Load a conditioning image like `load_transformed`; another size is stretched first.

    size: The only upright size that is accepted; None accepts any.
    """
    geometry = transform.geometry
    with ExitStack() as memory:  # until the image is small
        with open_image(file, path) as image:
            exif_orientation = orientation(image, file)
            if size and upright_size(image, exif_orientation) != size:
                raise ImageError(path, "its size has changed since the folder was read")
            if decoding_bytes(image) >= HUGE:
                # Lets the decoder downscale JPEGs; other formats are not changed.
                wanted = (HUGE_MARGIN * geometry.width, HUGE_MARGIN * geometry.height)
                is_turned = exif_orientation in TRANSPOSED_ORIENTATIONS
                image.draft(None, wanted[::-1] if is_turned else wanted)
            memory.enter_context(decoding(image, path))
            whole = _deep(image) if image.mode in DEEP_MODES else opaque(image)
        return crop_image(apply_orientation(whole, exif_orientation), transform, "images")


def _deep(image: "Image") -> "Image":
    """Return an image of 16 bits in "F"; takes numpy, which other images do without."""
    import numpy as np
    from PIL import Image

    return Image.fromarray(np.asarray(image).astype(np.float32))


def was_decoded_smaller(item: Item, transform: ImageTransform) -> bool:
    """Return whether earlier versions decoded an image at a fraction of its size, if a JPEG."""
    geometry, least = transform.geometry, 2 * FORMER_MARGIN  # the decoder's largest is a half
    return item.width >= least * geometry.width and item.height >= least * geometry.height


def crop_image(image: "Image", transform: ImageTransform, smoothing: Smoothing) -> "Image":
    """Return the part of an upright image that a transform selects: scaled, flipped and rotated.

    Masks are scaled bilinearly: Lanczos undershoots at edges, so that white would not stay white.
    """
    from PIL import Image

    geometry, bucket = transform.geometry, transform.bucket
    is_mask = smoothing == "masks"
    scaling = Image.Resampling.BILINEAR if is_mask else Image.Resampling.LANCZOS
    image = image.resize((geometry.width, geometry.height), scaling)
    # Flipped once it is small; scaling is symmetric.
    if transform.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if transform.flip_vertical:
        image = image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    if not transform.angle:
        return image.crop(geometry.box)
    return image.transform(
        (bucket.width, bucket.height),
        Image.Transform.AFFINE,
        _rotation_matrix(transform),
        Image.Resampling.BILINEAR if is_mask else Image.Resampling.BICUBIC,
    )


def adjust_colors(
    colors: "NDArray[np.float32]", transform: ImageTransform
) -> "NDArray[np.float32]":
    """Apply the color changes of a transform to each pixel; values are clipped once at the end.

    colors: (3, H, W), red, green and blue in [0, 1]. Returns the same shape, in [0, 1].
    """
    import numpy as np

    if not transform.is_recolored:
        return colors
    colors = colors * np.float32(1 + transform.brightness)
    colors = MIDDLE + (colors - MIDDLE) * np.float32(1 + transform.contrast)
    if transform.saturation:
        gray = sum(np.float32(part) * one for part, one in zip(LUMA, colors, strict=True))
        colors = gray + (colors - gray) * np.float32(1 + transform.saturation)
    if transform.hue:
        colors = _rotate_hue(colors, transform.hue)
    return np.clip(colors, 0, 1)


def _rotation_matrix(transform: ImageTransform) -> tuple[float, float, float, float, float, float]:
    """Return Pillow's affine coefficients (a, b, c, d, e, f) from the crop to the scaled image.

    x of the image is a·x + b·y + c, and y is d·x + e·y + f, of the crop's x and y, which point
    right and down.
    """
    geometry, bucket = transform.geometry, transform.bucket
    across, down = bucket.width / 2, bucket.height / 2
    exif_orientation = math.radians(transform.angle)
    cos, sin = math.cos(exif_orientation), math.sin(exif_orientation)
    x = geometry.left + across - cos * across + sin * down
    y = geometry.top + down - sin * across - cos * down
    return cos, -sin, x, sin, cos, y


def _rotate_hue(colors: "NDArray[np.float32]", degrees: float) -> "NDArray[np.float32]":
    """Return colors rotated around the color wheel; their highest and lowest channels stay.

    Source: A. R. Smith 1978, "Color gamut transform pairs", the hexcone model (HSV).
    """
    import numpy as np

    red, green, blue = colors
    high, low = colors.max(0), colors.min(0)
    width = high - low
    # Gray has no hue; any value does, as its width is 0.
    by = np.where(width == 0, np.float32(1), width)
    hue = np.where(
        high == red,
        (green - blue) / by,
        np.where(high == green, (blue - red) / by + 2, (red - green) / by + 4),
    )
    hue = hue + np.float32(degrees / 60)
    turned = []
    for corner in (5, 3, 1):
        place = (corner + hue) % 6
        turned.append(high - width * np.clip(np.minimum(place, 4 - place), 0, 1))
    return np.stack(turned)
