"""The font of texts in image files, the one that comes with customtkinter. No Tk."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_FILE = "assets/fonts/Roboto/Roboto-Regular.ttf"


def label_font(size: int) -> "FreeTypeFont":
    """Return it in a size in pixels."""
    from PIL import ImageFont

    return ImageFont.truetype(str(_folder() / _FILE), size)


@cache
def _folder() -> Path:
    spec = find_spec("customtkinter")
    assert spec is not None and spec.origin is not None, "the window has it"
    return Path(spec.origin).parent
