"""One image or two, large: zoomed and moved alike, one over the other or side by side."""

import tkinter as tk
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ui.background.image_cache import ImageCache, load_whole
from ui.progress.sight import Sight
from ui.widgets.drawing import Anchor, Drawing
from ui.widgets.widgets import Widgets
from ui.widgets.zoom_keys import bind_zoom_keys

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageTk import PhotoImage

Mode = Literal["one", "wipe", "beside"]
_ZOOM, _PAN = 1.25, 0.1
_GAP, _LEAST = 8, 60
_GRIP = 14  # pixels from the edge of the wipe


@dataclass(frozen=True)
class Staged:
    """An image with its title, which is shown where there are two."""

    path: Path
    title: str = ""


class ImageStage:
    """Canvas for images; place `canvas`.

    Args:
        shown: Called when other images are on the screen.
        held: Called with whether the button is held on an image that is not zoomed.
        takes_keys: Whether Tab reaches it, and its keys zoom and move what is seen.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        images: ImageCache,
        *,
        name: str,
        shown: Callable[[], None],
        held: Callable[[bool], None],
        takes_keys: bool = False,
    ) -> None:
        self._widgets, self._images, self._shown, self._held = widgets, images, shown, held
        self._staged: Sequence[Staged] = ()
        self._mode: Mode = "one"
        self.sight = Sight()
        self.split = 0.5
        self._size = (1, 1)  # of the first image, at any scale
        self._photo: PhotoImage | None = None
        self._drag: tuple[Literal["split", "pan", "hold"], int, int] | None = None
        self._takes_keys = takes_keys
        self._drawing = Drawing(
            widgets, parent, self.draw, width=50, height=50, name=name, takes_keys=takes_keys
        )
        self.canvas = canvas = self._drawing.canvas
        if takes_keys:
            canvas.configure(highlightthickness=2)
            widgets.theme.paint(canvas, highlightbackground="card", highlightcolor="accent")
            self.bind_keys(canvas)
        canvas.bind("<ButtonPress-1>", self._pressed)
        canvas.bind("<B1-Motion>", self._dragged)
        canvas.bind("<ButtonRelease-1>", self._released)
        canvas.bind("<Double-Button-1>", lambda _: self.see(Sight()))
        widgets.on_wheel[canvas] = self._on_wheel

    def bind_keys(self, widget: tk.Misc) -> None:
        """Let a widget's keys zoom and move what is seen."""
        larger, smaller = partial(self.zoom, _ZOOM), partial(self.zoom, 1 / _ZOOM)
        whole = partial(self.see, Sight())
        bind_zoom_keys(widget, larger=larger, smaller=smaller, whole=whole)
        for key, do in (
            ("Shift-Left", partial(self._move, -1, 0)),
            ("Shift-Right", partial(self._move, 1, 0)),
            ("Shift-Up", partial(self._move, 0, -1)),
            ("Shift-Down", partial(self._move, 0, 1)),
            ("Control-Left", partial(self._wipe_by, -0.05)),
            ("Control-Right", partial(self._wipe_by, 0.05)),
        ):
            widget.bind(f"<{key}>", partial(_do, do))

    def show(self, staged: Sequence[Staged], mode: Mode) -> None:
        """Show the first of some images, or two of them."""
        self._staged, self._mode = staged, mode if len(staged) > 1 else "one"
        self.draw()

    def see(self, sight: Sight) -> None:
        """See another part."""
        self.sight = sight
        self.draw()

    def zoom(self, factor: float, at: tuple[float, float] = (0.5, 0.5)) -> None:
        """Zoom by a factor. at: The place that stays, in fractions of an image's room."""
        self.see(self.sight.zoomed(factor, at, self._size, self._rooms()[0][1]))

    def draw(self) -> None:
        """Draw what is decoded; what was there before stays until all of it is."""
        drawing = self._drawing
        width, height = drawing.width, drawing.height
        if not self._staged or min(width, height) < _LEAST:
            return
        rooms = self._rooms()
        pictures = [
            self._picture(staged.path, room)
            for staged, (_, room) in zip(self._staged, rooms, strict=False)
        ]
        found = [picture for picture in pictures if picture is not None]
        if len(found) == len(pictures):
            self._put(self._composed(found, rooms, (width, height)))
            self._write_titles(rooms)
            self._shown()

    def _rooms(self) -> list[tuple[int, tuple[int, int]]]:
        """Return the left edge and the size of each image's room."""
        width, height, gap = self._drawing.width, self._drawing.height, self._drawing.px(_GAP)
        if self._mode == "one":
            return [(0, (width, height))]
        if self._mode == "wipe":
            return [(0, (width, height))] * 2
        half = max(1, (width - gap) // 2)
        return [(0, (half, height)), (width - half, (half, height))]

    def _picture(self, path: Path, room: tuple[int, int]) -> "Image | None":
        """Return what is seen of an image; None while it is being decoded."""
        if self.sight.zoom == 1.0:
            fitting = self._images.get(path, *room, self.draw)
            if fitting is not None and path == self._staged[0].path:
                self._size = fitting.size
            return fitting
        whole = self._images.get_or_make((path, "whole"), partial(load_whole, path), self.draw)
        if whole is None:
            return None
        from PIL import Image

        crop, size = self.sight.crop(whole.size, room)
        is_larger = size[0] > crop[2] - crop[0]
        how = Image.Resampling.BICUBIC if is_larger else Image.Resampling.BOX
        return whole.resize(size, how, crop)

    def _composed(
        self,
        pictures: "list[Image]",
        rooms: list[tuple[int, tuple[int, int]]],
        size: tuple[int, int],
    ) -> "Image":
        """Return one image of the canvas's size."""
        from PIL import Image

        ground = self._widgets.theme.palette["card"]
        layers = [Image.new("RGB", size, ground)]
        if self._mode == "wipe":
            layers.append(Image.new("RGB", size, ground))
        for number, (picture, (left, room)) in enumerate(zip(pictures, rooms, strict=True)):
            corner = (left + (room[0] - picture.width) // 2, (room[1] - picture.height) // 2)
            layers[number % len(layers)].paste(picture, corner)
        if self._mode == "wipe":
            at = round(self.split * size[0])
            layers[0].paste(layers[1].crop((at, 0, *size)), (at, 0))
        return layers[0]

    def _put(self, image: "Image") -> None:
        from PIL.ImageTk import PhotoImage

        if self._photo is None or (self._photo.width(), self._photo.height()) != image.size:
            self._photo = PhotoImage(image, master=self.canvas)
        else:
            self._photo.paste(image)  # a quarter of the time of a new one
        self.canvas.delete("all")
        self.canvas.create_image(0, 0, image=self._photo, anchor="nw")

    def _write_titles(self, rooms: list[tuple[int, tuple[int, int]]]) -> None:
        drawing, px = self._drawing, self._drawing.px
        if self._mode == "one":
            return
        width, height = drawing.width, drawing.height
        if self._mode == "wipe":
            at = round(self.split * width)
            drawing.line((at, 0, at, height), "accent", width=px(2))
        # The second one's title is at the right of a wipe, and above it where it is beside.
        is_wipe = self._mode == "wipe"
        second: tuple[int, Anchor, int] = (width, "ne", -1) if is_wipe else (rooms[1][0], "nw", 1)
        first: tuple[int, Anchor, int] = (0, "nw", 1)
        for staged, (x, anchor, side) in zip(self._staged, (first, second), strict=False):
            item = drawing.text(x + side * px(6), px(6), staged.title, anchor=anchor)
            left, top, end, bottom = self.canvas.bbox(item)
            pad = px(3)
            box = (left - pad, top - pad, end + pad, bottom + pad)
            self.canvas.tag_lower(drawing.box(*box, "raised"), item)

    def _on_wheel(self, notches: int) -> None:
        x = self.canvas.winfo_pointerx() - self.canvas.winfo_rootx()
        y = self.canvas.winfo_pointery() - self.canvas.winfo_rooty()
        rooms = self._rooms()
        left, (width, height) = rooms[-1] if x >= rooms[-1][0] else rooms[0]
        self.zoom(_ZOOM**-notches, ((x - left) / width, y / height))

    def _pressed(self, event: "tk.Event[tk.Canvas]") -> str:
        if self._takes_keys:
            self.canvas.focus_set()
        at = self.split * self._drawing.width
        is_free = self._mode == "wipe" and self.sight.zoom == 1.0
        if is_free or (self._mode == "wipe" and abs(event.x - at) <= self._drawing.px(_GRIP)):
            self._drag = ("split", event.x, event.y)
            self._wipe_to(event.x / self._drawing.width)
        elif self.sight.zoom > 1.0:
            self._drag = ("pan", event.x, event.y)
        else:
            self._drag = ("hold", event.x, event.y)
            self._held(True)
        # Otherwise the click would move the focus to the image.
        return "break"

    def _dragged(self, event: "tk.Event[tk.Canvas]") -> None:
        if self._drag is None:
            return
        what, x, y = self._drag
        if what == "split":
            self._wipe_to(event.x / self._drawing.width)
        elif what == "pan":
            room = self._rooms()[0][1]
            by = ((x - event.x) / room[0], (y - event.y) / room[1])
            self._drag = (what, event.x, event.y)
            self.see(self.sight.moved(by, self._size, room))

    def _released(self, _: object) -> None:
        if self._drag is not None and self._drag[0] == "hold":
            self._held(False)
        self._drag = None

    def _move(self, across: int, down: int) -> None:
        by = (across * _PAN, down * _PAN)
        self.see(self.sight.moved(by, self._size, self._rooms()[0][1]))

    def _wipe_by(self, by: float) -> None:
        self._wipe_to(self.split + by)

    def _wipe_to(self, split: float) -> None:
        self.split = min(max(0.0, split), 1.0)
        self.draw()


def _do(do: Callable[[], object], _: object) -> str:
    do()
    return "break"
