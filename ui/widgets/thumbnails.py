"""Images on a canvas that is drawn again and again."""

import tkinter as tk
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ui.widgets.widgets import Kit

if TYPE_CHECKING:
    from PIL.Image import Image

_MAX_IMAGES = 200


class Thumbnails:
    """Images of one canvas by key. They are kept, because Tk drops an image without a reference."""

    def __init__(self, kit: Kit, canvas: tk.Canvas) -> None:
        self._kit = kit
        self._canvas = canvas
        self._images: dict[Hashable, object] = {}
        self._used: set[Hashable] = set()

    def begin(self) -> None:
        """Empty the canvas for a new drawing; drop images that the last one did not use."""
        self._canvas.delete("all")
        if len(self._images) > _MAX_IMAGES:
            self._images = {key: self._images[key] for key in self._used}
        self._used.clear()

    def draw(self, key: Hashable, image: "Image | None", x: int, y: int, side: int) -> bool:
        """Draw an image centered at a point; return whether there was one.

        Where there is none yet, a plain square with this side takes its place.
        """
        if image is None:
            self.outline(x, y, side, fill=self._kit.theme.palette.raised)
            return False
        if key not in self._images:
            from PIL.ImageTk import PhotoImage

            self._images[key] = PhotoImage(image, master=self._canvas)
        self._used.add(key)
        self._canvas.create_image(x, y, image=self._images[key])
        return True

    def outline(self, x: int, y: int, side: int, *, fill: str = "", color: str = "") -> None:
        """Draw a square around a center, filled or outlined."""
        half = side // 2
        box = (x - half, y - half, x - half + side, y - half + side)
        self._canvas.create_rectangle(*box, fill=fill, outline=color, width=self._kit.px(3))

    def forget(self) -> None:
        """Drop all images, because their keys now stand for others."""
        self._images.clear()
