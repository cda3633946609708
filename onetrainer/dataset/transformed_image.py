"""A picture as one of its views shows it: upright, opaque, cut, and in its colors.

Shared by training and by whatever shows people what training sees. Pillow and numpy are imported
when a picture is opened: naming this module costs nothing.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import View
from onetrainer.images.image_file import (
    DEEP_MODES,
    QUARTER_TURNS,
    ImageError,
    opened,
    orientation,
    upright_size,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What undoes each of EXIF's orientations (CIPA DC-008, tag 0x0112), as Pillow calls it. Not
Pillow's exif_transpose: it also rewrites the EXIF block, and stumbles over damaged ones."""

DRAFT_MARGIN = 2
"""Measured on a 12 megapixel JPEG scaled to 683 × 512: 2.4 times as fast as decoding all of it,
and 0.4 of 255 away from it on average. A margin of 1 is 3.5 times as fast and 0.85 away."""

DEEP_WHITE = 65535
"""White in 16 bits."""

LUMA = (0.299, 0.587, 0.114)
"""How much red, green and blue each give to the gray of a color. Source: ITU-R BT.601."""

MIDDLE = 0.5
"""What contrast leaves as it is. Not the picture's own mean, which a picture beside it, shown to
an inpainting model, does not share: their colors would part."""

Smoothing = Literal["pictures", "masks"]


def shown(item: Item, view: View, file: BinaryIO) -> "Image":
    """A view of an item's picture, but for its colors. file: what item.path holds, only read.

    Returns a picture of the bucket's size: "RGB", or "F" from 0 to about 65535 where it has 16
    bits. Raises PictureError if it cannot be read, or is no longer the picture that was indexed.
    """
    return _shown(item.path, view, file, expected=(item.width, item.height))


def shown_beside(path: Path, view: View, file: BinaryIO) -> "Image":
    """The same of a picture beside an item's; one of another size is stretched to that first."""
    return _shown(path, view, file, expected=None)


def upright(image: "Image", turn: int) -> "Image":
    """turn: what `orientation` gave."""
    from PIL import Image

    return image.transpose(Image.Transpose[TURNS[turn]]) if turn in TURNS else image


def cut(image: "Image", view: View, smoothing: Smoothing) -> "Image":
    """The part of an upright picture that a view shows, scaled, mirrored and turned.

    Masks are smoothed by straight lines: Lanczos undershoots beside edges, and white would not stay
    white.
    """
    from PIL import Image

    geometry, bucket = view.geometry, view.bucket
    is_mask = smoothing == "masks"
    scaling = Image.Resampling.BILINEAR if is_mask else Image.Resampling.LANCZOS
    image = image.resize((geometry.width, geometry.height), scaling)
    # Mirrored when it is small; scaling does not know left from right.
    if view.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if view.flip_vertical:
        image = image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    if not view.angle:
        return image.crop(geometry.box)
    return image.transform(
        (bucket.width, bucket.height),
        Image.Transform.AFFINE,
        _turning(view),
        Image.Resampling.BILINEAR if is_mask else Image.Resampling.BICUBIC,
    )


def recolored(colors: "NDArray[np.float32]", view: View) -> "NDArray[np.float32]":
    """Colors as a view shows them; every pixel by itself, cut off once, at the end.

    colors: (3, H, W), red, green and blue in [0, 1]. Returns the same shape, in [0, 1].
    """
    import numpy as np

    if not view.is_recolored:
        return colors
    colors = colors * np.float32(1 + view.brightness)
    colors = MIDDLE + (colors - MIDDLE) * np.float32(1 + view.contrast)
    if view.saturation:
        gray = sum(np.float32(part) * one for part, one in zip(LUMA, colors, strict=True))
        colors = gray + (colors - gray) * np.float32(1 + view.saturation)
    if view.hue:
        colors = _hue_turned(colors, view.hue)
    return np.clip(colors, 0, 1)


def _shown(path: Path, view: View, file: BinaryIO, *, expected: tuple[int, int] | None) -> "Image":
    with opened(file, path) as image:
        turn = orientation(image, file)
        if expected and upright_size(image, turn) != expected:
            raise ImageError(path, "its size has changed since the folder was read")
        _draft(image, view, turn)
        whole = _opaque(image)
    return cut(upright(whole, turn), view, "pictures")


def _draft(image: "Image", view: View, turn: int) -> None:
    """Lets the decoder halve large JPEGs itself, to not less than DRAFT_MARGIN times the need.

    image: changed in place, as Pillow has it; other formats are not.
    """
    wanted = (DRAFT_MARGIN * view.geometry.width, DRAFT_MARGIN * view.geometry.height)
    image.draft(None, wanted[::-1] if turn in QUARTER_TURNS else wanted)


def _opaque(image: "Image") -> "Image":
    """The picture without transparency: "RGB", or "F" from 0 to 65535 where it has 16 bits.

    What is transparent becomes white, as on a page: black would be learned as a background.
    Animated pictures give their first frame.
    """
    import numpy as np
    from PIL import Image

    if image.mode in DEEP_MODES:
        return Image.fromarray(np.asarray(image).astype(np.float32))
    if not image.has_transparency_data:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")


def _turning(view: View) -> tuple[float, float, float, float, float, float]:
    """From a place in the cut to that in the scaled picture: (a, b, c, d, e, f) as Pillow has it.

    x of the picture is a·x + b·y + c, and y is d·x + e·y + f, of the cut's x and y, which go right
    and down.
    """
    geometry, bucket = view.geometry, view.bucket
    across, down = bucket.width / 2, bucket.height / 2
    turn = math.radians(view.angle)
    cos, sin = math.cos(turn), math.sin(turn)
    x = geometry.left + across - cos * across + sin * down
    y = geometry.top + down - sin * across - cos * down
    return cos, -sin, x, sin, cos, y


def _hue_turned(colors: "NDArray[np.float32]", degrees: float) -> "NDArray[np.float32]":
    """Turned around the circle of colors; what is highest and lowest of the three stays.

    Source: A. R. Smith 1978, "Color gamut transform pairs", the hexcone model (HSV).
    """
    import numpy as np

    red, green, blue = colors
    high, low = colors.max(0), colors.min(0)
    width = high - low
    # A gray has no hue; whichever it gets does nothing, as its width is 0.
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
