"""Canvas that is drawn again when its size or the theme changes."""

import tkinter as tk
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Literal

from ui.messages.line_breaks import shorten
from ui.theme.palette import Role
from ui.theme.theme import SMALL
from ui.widgets.widgets import Widgets

if TYPE_CHECKING:
    from PIL.Image import Image

Anchor = Literal["n", "nw", "ne", "sw", "w", "e", "center"]
_MAX_IMAGES = 100


class Drawing:
    """Texts, shapes and images in the colors of the theme; place `canvas`.

    Images are kept by key, because Tk drops an image without a reference.

    Args:
        draw: Draws everything.
        takes_keys: Whether Tab reaches it; it is then drawn again when it gets or loses the focus.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        draw: Callable[[], None],
        *,
        width: int = 1,
        height: int = 1,
        name: str = "",
        takes_keys: bool = False,
    ) -> None:
        self.widgets = widgets
        self.canvas = tk.Canvas(parent, highlightthickness=0, takefocus=takes_keys)
        self.canvas.configure(width=width, height=height)
        widgets.theme.paint(self.canvas, bg="card")
        focus = ("<FocusIn>", "<FocusOut>") if takes_keys else ()
        for sequence in ("<Configure>", "<<ThemeChanged>>", *focus):
            self.canvas.bind(sequence, lambda _: draw())
        if name:
            widgets.name(self.canvas, name)
        self._images: dict[Hashable, object] = {}
        self._used: set[Hashable] = set()

    @property
    def width(self) -> int:
        """Width in pixels."""
        return self.canvas.winfo_width()

    @property
    def height(self) -> int:
        """Height in pixels."""
        return self.canvas.winfo_height()

    def set_height(self, height: int) -> None:
        """Ask for a height in pixels."""
        if int(self.canvas.cget("height")) != height:
            self.canvas.configure(height=height)

    def begin(self) -> None:
        """Empty the canvas for a new drawing; drop images that the last one did not use."""
        self.canvas.delete("all")
        if len(self._images) > _MAX_IMAGES:
            self._images = {key: self._images[key] for key in self._used}
        self._used.clear()

    def text(
        self,
        x: float,
        y: float,
        text: str,
        role: Role = "text",
        *,
        anchor: Anchor = "nw",
        font: str = SMALL,
        room: float | None = None,
        tags: str = "",
    ) -> int:
        """Write a text and return its item. room: pixels to shorten it to."""
        if room is not None:
            text = shorten(text, round(room), lambda part: self.widgets.theme.measure(part, font))
        color = self.widgets.theme.palette[role]
        return self.canvas.create_text(
            x, y, text=text, anchor=anchor, font=font, fill=color, tags=tags
        )

    def box(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        fill: Role | None = None,
        *,
        outline: Role | None = None,
        width: int = 1,
        tags: str = "",
    ) -> int:
        """Draw a rectangle and return its item."""
        return self.canvas.create_rectangle(
            (left, top, right, bottom),
            fill=self._color(fill),
            outline=self._color(outline),
            width=width,
            tags=tags,
        )

    def square(
        self, x: int, y: int, side: int, fill: Role | None = None, *, outline: Role | None = None
    ) -> None:
        """Draw a square around a center."""
        left, top = x - side // 2, y - side // 2
        self.box(
            left, top, left + side, top + side, fill, outline=outline, width=self.widgets.px(3)
        )

    def dot(self, x: float, y: float, radius: float, role: Role, *, tags: str = "") -> None:
        """Draw a filled circle."""
        box = (x - radius, y - radius, x + radius, y + radius)
        self.canvas.create_oval(box, fill=self._color(role), outline="", tags=tags)

    def line(
        self,
        points: tuple[float, float, float, float],
        role: Role,
        *,
        width: int = 1,
        dash: tuple[int, ...] = (),
        cap: Literal["butt", "round"] = "butt",
        tags: str = "",
    ) -> None:
        """Draw a line from a point to another: x, y, x, y."""
        color = self._color(role)
        self.canvas.create_line(points, fill=color, width=width, dash=dash, capstyle=cap, tags=tags)

    def px(self, length: float) -> int:
        """Convert pixels at 96 dpi to pixels of this screen."""
        return self.widgets.px(length)

    def measure(self, text: str) -> int:
        """Return the width of a text."""
        return self.widgets.theme.measure(text, SMALL)

    def path(
        self,
        points: Sequence[tuple[float, float]],
        role: Role,
        *,
        width: int = 1,
        dash: tuple[int, ...] = (),
    ) -> None:
        """Draw a line through at least two points; round corners if it is wider than 1."""
        joint: Literal["bevel", "round"] = "bevel" if width == 1 else "round"
        color = self._color(role)
        self.canvas.create_line(list(points), fill=color, width=width, joinstyle=joint, dash=dash)

    def area(
        self, points: Sequence[tuple[float, float]], role: Role, *, outline: Role | None = None
    ) -> None:
        """Fill a polygon."""
        color, edge = self._color(role), self._color(outline)
        self.canvas.create_polygon(list(points), fill=color, outline=edge)

    def ring(self, x: float, y: float, radius: float, role: Role, *, width: int) -> None:
        """Draw a circle."""
        box = (x - radius, y - radius, x + radius, y + radius)
        self.canvas.create_oval(box, outline=self._color(role), width=width)

    def has(self, key: Hashable) -> bool:
        """Return whether an image is kept, so that it need not be given again."""
        return key in self._images

    def image(self, key: Hashable, image: "Image | None", x: int, y: int, side: int) -> bool:
        """Draw an image centered at a point; return whether there was one.

        Where there is none yet, a plain square with this side takes its place. image: May be None
        where it is kept.
        """
        if key not in self._images:
            if image is None:
                self.square(x, y, side, "raised")
                return False
            from PIL.ImageTk import PhotoImage

            self._images[key] = PhotoImage(image, master=self.canvas)
        self._used.add(key)
        self.canvas.create_image(x, y, image=self._images[key])
        return True

    def forget(self) -> None:
        """Drop all images, because their keys now stand for others."""
        self._images.clear()

    def _color(self, role: Role | None) -> str:
        return self.widgets.theme.palette[role] if role else ""
