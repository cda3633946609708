"""The font that the program brings along, for image files and for a window without a better one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_CUTS = ("Regular", "Medium")


def label_font(size: int) -> "FreeTypeFont":
    """Return it in a size in pixels, for Pillow."""
    from PIL import ImageFont

    return ImageFont.truetype(str(font_file(_CUTS[0])), size)


def add_own_font() -> None:
    """Let Tk know it in this process, on Linux, where a desktop may have no font for a window."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    try:
        fontconfig = ctypes.CDLL("libfontconfig.so.1")
    except OSError:
        return  # Tk does without it as well then
    for cut in _CUTS:
        fontconfig.FcConfigAppFontAddFile(None, str(font_file(cut)).encode())


def font_file(cut: str) -> Path:
    """Return the file of a cut: "Regular" or "Medium"."""
    return Path(__file__).parent / "roboto" / f"Roboto-{cut}.ttf"
