"""An image under its mask, as it is painted. Safe in threads."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ui.background.image_cache import load_fitting

if TYPE_CHECKING:
    from PIL.Image import Image

MaskShown = Literal["over", "mask", "image"]
_IGNORED_COLOR = (200, 30, 60)
_TINT = 0.62


class MaskedImage:
    """An image at the size of the window, with what is not trained tinted."""

    def __init__(self, image: "Image") -> None:
        from PIL import Image

        self.image = image
        self._tinted = Image.blend(image, Image.new("RGB", image.size, _IGNORED_COLOR), _TINT)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.size

    def under(self, mask: "Image", shown: MaskShown) -> "Image":
        """Return the image with the mask over it, the mask alone, or the image alone."""
        from PIL import Image

        if shown == "image":
            return self.image
        small = mask.resize(self.size, Image.Resampling.BILINEAR, reducing_gap=2.0)
        return small if shown == "mask" else Image.composite(self.image, self._tinted, small)


def load_masked(path: Path, width: int, height: int) -> MaskedImage | None:
    """Load an image that fits into a box; None if it cannot be read."""
    image = load_fitting(path, width, height)
    return None if image is None else MaskedImage(image)
