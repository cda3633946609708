"""Painting of an image's mask, in place of the grid of images."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from pathlib import Path

from onetrainer.images.image_file import ImageError
from ui.background.mask_images import MaskedImage, load_masked
from ui.context import Context
from ui.editing.image_list import ImageList
from ui.editing.image_rows import ImageRow
from ui.editing.mask_painting import IGNORED, TRAINED, MaskPainting
from ui.editing.open_mask import Make, OpenMask, Read
from ui.pages.images.mask_tools import TOOLS, Act, MaskTools
from ui.widgets.drawing import Drawing
from ui.widgets.placing import show, wrap_within

_HINT = "White is trained; what is tinted is not.  [ and ]: size  ·  Esc: back"
_MASKS = "data.masks"
_NOT_USED = "Masks are turned off in the settings (Data › Masks), so it is not used."


class MaskView:
    """The mask of one image with tools; place `outer`.

    Args:
        read: Returns what a mask file holds.
        save: Called with a mask file and what makes its change, in another thread.
        move: Called with 1 or -1 to go to the next or previous image.
        leave: Called to go back to the grid.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        *,
        read: Read,
        save: Callable[[Path, Make], None],
        move: Callable[[int], None],
        leave: Callable[[], object],
    ) -> None:
        self._context, self._read, self._save_made, self._move = context, read, save, move
        self._row: ImageRow | None = None
        self._mask = context.widgets.kept.once("open mask", OpenMask)
        self._masked: MaskedImage | None = None
        self._loaded: tuple[object, ...] = ()
        self._is_drawing = False
        widgets = context.widgets
        self.outer, inner = widgets.card(parent)
        self._tools = MaskTools(
            widgets,
            inner,
            do=self._do,
            remove=self._remove,
            redraw=self._draw,
            move=move,
            leave=leave,
        )
        foot = widgets.frame(inner)
        foot.pack(side="bottom", fill="x")
        self._note = widgets.label(foot, style="SmallDim")
        self._note.pack(side="left", fill="x", expand=True)
        wrap_within(self._note, self._note, margin=0)
        self._setting = widgets.button(
            foot, "Go to the setting", partial(context.act.jump, _MASKS), name="mask setting"
        )
        self._view = Drawing(widgets, inner, self._draw, name="mask", takes_keys=True)
        self.canvas = self._view.canvas
        self.canvas.configure(highlightthickness=2, cursor="crosshair")
        widgets.theme.paint(self.canvas, highlightbackground="card", highlightcolor="accent")
        self.canvas.pack(fill="both", expand=True, pady=widgets.px(8))
        self._bind()

    @property
    def painting(self) -> MaskPainting | None:
        """The mask; None while it is read, and if it cannot be painted."""
        return self._mask.painting

    @property
    def row(self) -> ImageRow | None:
        """The image that is shown; None before the first one is."""
        return self._row

    def show(self, images: ImageList, row: ImageRow) -> None:
        """Show an image with its mask: as it was left, if its file still holds that."""
        path, locked = images.mask_path(row), images.mask_locked(row)
        self._row = row
        is_known = self._mask.is_known(path, self._read)
        if is_known and not images.is_complete:
            locked = ""  # its image was read before, and is read again
        if locked or not is_known:
            self.save()
            self._mask.open(path)
            self._masked, self._loaded = None, ()
            if not locked and row.item is not None:
                self._context.widgets.jobs.run(
                    partial(_load, path, (row.item.width, row.item.height), self._read),
                    partial(self._take_mask, row),
                    partial(self._fail, row, path),
                )
        self._say(locked or (_NOT_USED if images.concept_of(row).masks == "off" else ""))
        self._draw()
        self._enable()

    def _say(self, note: str) -> None:
        name = self._row.name if self._row else ""
        self._note.say(f"{name}  ·  {note or _HINT}", "SmallWarning" if note else "SmallDim")
        show(self._setting.widget, note == _NOT_USED, side="right", before=self._note)

    def _take_mask(self, row: ImageRow, loaded: tuple[bytes | None, MaskPainting]) -> None:
        if row is not self._row:
            return
        self._mask.take(*loaded)
        # Without a mask all is trained, and a brush would change nothing.
        self._tools.propose("brush" if self._mask.has_file else "erase")
        self._draw()
        self._enable()

    def _fail(self, row: ImageRow, path: Path, error: Exception) -> None:
        """Say why a mask cannot be painted."""
        if not isinstance(error, OSError | ImageError):
            raise error
        if row is not self._row:
            return
        if isinstance(error, ImageError):
            self._say(f"{path.name}: {error.reason}.")
        else:
            self._say(f"{path.name} cannot be read ({error.strerror}).")

    def save(self) -> None:
        """Save the mask if it was changed; its file is made where it is saved."""
        self._save(self._mask.saving())

    def _save(self, make: Make | None) -> None:
        if make is not None and self._mask.path is not None:
            self._save_made(self._mask.path, make)

    def _bind(self) -> None:
        canvas = self.canvas
        canvas.bind("<Button-1>", self._pressed)
        canvas.bind("<Shift-Button-1>", self._pressed)
        canvas.bind("<B1-Motion>", self._moved)
        canvas.bind("<ButtonRelease-1>", lambda _: self._released())
        canvas.bind("<Motion>", lambda event: self._draw_brush(event.x, event.y))
        canvas.bind("<Leave>", lambda _: canvas.delete("brush"))
        for tool, *_ in TOOLS:
            canvas.bind(f"<Key-{tool[0]}>", _key(partial(self._tools.choose, tool)))
        for key, steps in (("<bracketleft>", -1), ("<bracketright>", 1)):
            canvas.bind(key, partial(self._resize_brush, steps))
        canvas.bind("<Control-z>", lambda _: self._do(MaskPainting.undo))
        for key in ("<Control-Z>", "<Control-y>"):
            canvas.bind(key, lambda _: self._do(MaskPainting.redo))
        for key, step in (("<Left>", -1), ("<Right>", 1)):
            canvas.bind(key, _key(partial(self._move, step)))

    def _resize_brush(self, steps: int, event: "tk.Event[tk.Canvas]") -> str:
        self._tools.resize_brush(steps)
        self._draw_brush(event.x, event.y)  # a key tells where the pointer is, too
        return "break"

    def _do(self, act: Act) -> str:
        if self.painting is not None:
            act(self.painting)
            self._draw()
            self._enable()
        return "break"

    def _remove(self) -> None:
        self._save(self._mask.removing())

    def _enable(self) -> None:
        self._tools.enable(self._mask)

    @property
    def _scale(self) -> float:
        """Mask pixels for each pixel of the canvas, also while the image is still loaded."""
        assert self.painting is not None, "there is a mask"
        width, height = self.painting.image.size
        return max(width / self._view.width, height / self._view.height)

    def _place(self, x: float, y: float) -> tuple[float, float] | None:
        """Return the place in the mask of a point of the canvas."""
        if self.painting is None:
            return None
        left, top = x - self._view.width / 2, y - self._view.height / 2
        width, height = self.painting.image.size
        return width / 2 + left * self._scale, height / 2 + top * self._scale

    @property
    def _radius(self) -> float:
        """Radius of the brush in mask pixels; half a pixel of the canvas or more."""
        assert self.painting is not None, "there is a mask"
        return max(0.5 * self._scale, self._tools.size * max(self.painting.image.size) / 2)

    def _pressed(self, event: "tk.Event[tk.Canvas]") -> str:
        self.canvas.focus_set()
        place = self._place(event.x, event.y)
        if place is None or self.painting is None:
            return "break"
        if self._tools.tool == "fill":
            value = IGNORED if int(event.state) & 1 else TRAINED  # with Shift
            self.painting.fill(*place, value, self._tools.opacity)
            self._draw()
            self._enable()
        else:
            self._moved(event)
        return "break"

    def _moved(self, event: "tk.Event[tk.Canvas]") -> str:
        place = self._place(event.x, event.y)
        if place is not None and self.painting is not None and self._tools.tool != "fill":
            value = TRAINED if self._tools.tool == "brush" else IGNORED
            self.painting.stroke(*place, self._radius, value, self._tools.opacity)
            self._draw_soon()
        self._draw_brush(event.x, event.y)
        return "break"

    def _released(self) -> None:
        if self.painting is not None:
            self.painting.end_stroke()
            self._draw()
            self._enable()

    def _draw_soon(self) -> None:
        """Draw once for all moves of the pointer that wait."""
        if not self._is_drawing:
            self._is_drawing = True
            self.canvas.after_idle(self._draw)

    def _draw(self) -> None:
        self._is_drawing = False
        row, view = self._row, self._view
        if row is None or min(view.width, view.height) < 40 or not self.outer.winfo_manager():
            return
        key = (row.path, view.width, view.height)
        if self._loaded != key:
            self._loaded, self._masked = key, None
            jobs = self._context.widgets.jobs
            jobs.run(partial(load_masked, *key), partial(self._take, key))
        view.begin()
        if self._masked is None:
            return
        image = self._masked.image
        if self.painting is not None:
            image = self._masked.under(self.painting.image, self._tools.shown)
        view.forget()
        view.image("mask", image, view.width // 2, view.height // 2, 0)

    def _take(self, key: tuple[object, ...], masked: MaskedImage | None) -> None:
        if key == self._loaded:
            self._masked = masked
            self._draw()

    def _draw_brush(self, x: int, y: int) -> None:
        """Draw the outline of the brush around the pointer, visible on any image."""
        self.canvas.delete("brush")
        if self._tools.tool != "fill" and self.painting is not None:
            radius = self._radius / self._scale
            for color, around in (("#000000", radius + 1), ("#ffffff", radius)):
                box = (x - around, y - around, x + around, y + around)
                self.canvas.create_oval(box, outline=color, tags="brush")


def _load(path: Path, size: tuple[int, int], read: Read) -> tuple[bytes | None, MaskPainting]:
    """Return what a mask file holds, and the mask; takes a while for a large one."""
    content = read(path)
    return content, MaskPainting(path, size, content)


def _key(act: Callable[[], object]) -> Callable[["tk.Event[tk.Canvas]"], str]:
    """Return a binding that does something as the whole effect of a key."""

    def pressed(_: "tk.Event[tk.Canvas]") -> str:
        act()
        return "break"

    return pressed
