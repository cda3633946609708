"""Painting of an image's mask, in place of the grid of images."""

import tkinter as tk
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tkinter import ttk
from typing import Literal

from onetrainer.edits.saving import Change
from onetrainer.images.image_file import ImageError
from ui.background.mask_images import MaskedImage, MaskShown, load_masked
from ui.context import Context
from ui.editing.image_list import ImageList
from ui.editing.image_rows import ImageRow
from ui.editing.mask_painting import IGNORED, TRAINED, MaskPainting, png
from ui.widgets.button import Button
from ui.widgets.drawing import Drawing
from ui.widgets.flow import Flow
from ui.widgets.placing import show
from ui.widgets.slider import Scale, labeled_slider

Tool = Literal["brush", "erase", "fill"]
_TOOLS: tuple[tuple[Tool, str, str], ...] = (
    ("brush", "Brush", "Marks what is trained (B); without a mask, all of it is"),
    ("erase", "Erase", "Marks what is not trained (E)"),
    ("fill", "Fill", "Fills an area as trained; with Shift as not trained (F)"),
)
_Line = tuple[ttk.Frame, Flow]
Content = Callable[[], bytes]
"""Returns what a file holds, which may have to be made first."""
_SHOWN: tuple[tuple[MaskShown, str], ...] = (
    ("over", "Image and mask"),
    ("mask", "Mask"),
    ("image", "Image"),
)
_SIZE = Scale("mask size", "Size {:.1f} %", (0.1, 20.0), start=4.0, by=1.0)
"""Of the brush, in percent of the longer side."""
_OPACITY = Scale("mask opacity", "Opacity {:.0f} %", (5.0, 100.0), start=100.0, by=5.0)
_HINT = "White is trained; what is tinted is not.  [ and ]: size  ·  Esc: back"
_NOTHING = "Nothing to undo."
_MASKS = "data.masks"
_NOT_USED = "Masks are turned off in the settings (Data › Masks), so it is not used."
_NO_MASK = "This image has no mask file; all of it is trained."


class MaskView:
    """The mask of one image with tools; place `outer`.

    Args:
        read: Returns what a mask file holds, or will once what waits is saved. May raise OSError.
        save: Called with a mask file and what makes its change, in another thread.
        move: Called with 1 or -1 to go to the next or previous image.
        leave: Called to go back to the grid.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        *,
        read: Callable[[Path], bytes | None],
        save: Callable[[Path, Callable[[], Change]], None],
        move: Callable[[int], None],
        leave: Callable[[], object],
    ) -> None:
        self._context, self._read, self._save_made = context, read, save
        self._move, self._leave = move, leave
        self._row: ImageRow | None = None
        self._path: Path | None = None
        self._content: Content | None = None  # None is no file
        self.painting: MaskPainting | None = None
        self._masked: MaskedImage | None = None
        self._loaded: tuple[object, ...] = ()
        self.tool: Tool = "brush"
        self._is_drawing = False
        widgets = context.widgets
        self.outer, inner = widgets.card(parent)
        self._buttons: dict[str, Button] = {}
        self._make_tools(inner)
        foot = widgets.frame(inner)
        foot.pack(side="bottom", fill="x")
        self._note = widgets.label(foot, style="SmallDim")
        self._note.pack(side="left")
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
    def row(self) -> ImageRow | None:
        """The image whose mask is shown."""
        return self._row

    def show(self, images: ImageList, row: ImageRow) -> None:
        """Show an image with its mask; that of another one is saved before."""
        self.save()
        self._row, self.painting, self._masked, self._loaded = row, None, None, ()
        path, locked = images.mask_path(row), images.mask_locked(row)
        self._path, self._content = path, None
        self._say(locked)
        if not locked and row.item is not None:
            size = (row.item.width, row.item.height)
            is_used = images.concept_of(row).masks != "off"
            self._context.widgets.jobs.run(
                partial(_load, path, size, self._read),
                partial(self._take_mask, row, is_used),
                partial(self._fail, row, path),
            )
        self._draw()
        self._enable()

    def _say(self, note: str) -> None:
        name = self._row.name if self._row else ""
        self._note.say(f"{name}  ·  {note or _HINT}", "SmallWarning" if note else "SmallDim")
        gap = (self._context.widgets.px(12), 0)
        show(self._setting.widget, note == _NOT_USED, side="left", padx=gap)

    def _take_mask(
        self, row: ImageRow, is_used: bool, loaded: tuple[bytes | None, MaskPainting]
    ) -> None:
        if row is not self._row:
            return
        content, self.painting = loaded
        self._content = None if content is None else lambda: content
        # Until one was chosen. Without a mask all is trained, and a brush would change nothing.
        self._use(self._context.widgets.kept.value("mask tool", "brush" if content else "erase"))
        self._say("" if is_used else _NOT_USED)
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

    def reload(self, images: ImageList, row: ImageRow) -> None:
        """Show the mask again if its file holds something else than is known here."""
        if self.painting is None or self._row is None or self._row.path != row.path:
            self.show(images, row)
            return
        path = images.mask_path(row)
        try:
            content = self._content() if self._content else None
            is_known = self._path == path and self._read(path) == content
        except OSError:
            is_known = False
        if not is_known:
            self.show(images, row)
        self._enable()

    def save(self) -> None:
        """Save the mask if it was changed; its file is made where it is saved."""
        path, before = self._path, self._content
        if self.painting is None or not self.painting.is_changed or path is None:
            return
        after = self._content = cache(partial(png, self.painting.taken()))
        self._save_made(path, lambda: Change(path, before() if before else None, after()))

    def choose(self, tool: Tool) -> str:
        """Choose a tool, also for the images that are shown next."""
        self._context.widgets.kept.keep("mask tool", tool)
        return self._use(tool)

    def _use(self, tool: Tool) -> str:
        self.tool = tool
        for name, *_ in _TOOLS:
            self._buttons[f"mask {name}"].set_kind("plain" if name == tool else "quiet")
        return "break"

    def _make_tools(self, parent: tk.Misc) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        flows = []
        for _ in range(2):
            line = widgets.frame(parent)
            line.pack(fill="x", pady=(0, px(6)))
            flows.append((line, Flow(widgets, line)))
        first, second = flows
        for tool, text, about in _TOOLS:
            self._button(first, f"mask {tool}", text, partial(self.choose, tool), about)
        sliders = []
        for scale in (_SIZE, _OPACITY):
            box, slider = labeled_slider(widgets, first[0], scale)
            first[1].add(box)
            sliders.append(slider)
        self._size, self._opacity = sliders
        shown = self._shown = ttk.Combobox(
            first[0], values=[text for _, text in _SHOWN], state="readonly", width=14
        )
        shown.configure(font="OneTrainerBody")
        shown.set(_SHOWN[0][1])
        shown.bind("<<ComboboxSelected>>", lambda _: self._draw())
        first[1].add(shown)
        widgets.name(shown, "mask shown")
        do, fill = self._do, MaskPainting.fill_all
        for name, text, action, about in (
            ("mask undo", "Undo", lambda: do(MaskPainting.undo), "Undoes a stroke (Ctrl+Z)"),
            ("mask redo", "Redo", lambda: do(MaskPainting.redo), "(Ctrl+Shift+Z)"),
            (
                "mask clear",
                "Clear",
                lambda: do(partial(fill, value=IGNORED)),
                "Marks all of it as not trained",
            ),
            (
                "mask all",
                "Train all",
                lambda: do(partial(fill, value=TRAINED)),
                "Marks all of it as trained",
            ),
            ("mask invert", "Invert", lambda: do(MaskPainting.invert), ""),
            ("mask remove", "Remove mask", self._remove, "Removes the mask file; can be undone"),
        ):
            self._button(second, name, text, action, about)
        ways: tuple[tuple[str, str, Callable[[], object]], ...] = (
            ("mask previous", "Previous", partial(self._move, -1)),
            ("mask next", "Next", partial(self._move, 1)),
            ("mask done", "Back to the images", self._leave),
        )
        for name, text, go in ways:
            self._button(second, name, text, go, "")
        self._use("brush")

    def _button(
        self, line: _Line, name: str, text: str, action: Callable[[], object], about: str
    ) -> None:
        box, flow = line
        made = self._context.widgets.button(box, text, action, name=name).describe(about)
        flow.add(made.widget)
        self._buttons[name] = made

    def _bind(self) -> None:
        canvas = self.canvas
        canvas.bind("<Button-1>", self._pressed)
        canvas.bind("<Shift-Button-1>", self._pressed)
        canvas.bind("<B1-Motion>", self._moved)
        canvas.bind("<ButtonRelease-1>", lambda _: self._released())
        canvas.bind("<Motion>", lambda event: self._draw_brush(event.x, event.y))
        canvas.bind("<Leave>", lambda _: canvas.delete("brush"))
        for name, *_ in _TOOLS:
            canvas.bind(f"<Key-{name[0]}>", _key(partial(self.choose, name)))
        for key, by in (("<bracketleft>", -_SIZE.by), ("<bracketright>", _SIZE.by)):
            canvas.bind(key, partial(self._resize_brush, by))
        canvas.bind("<Control-z>", lambda _: self._do(MaskPainting.undo))
        for key in ("<Control-Z>", "<Control-y>"):
            canvas.bind(key, lambda _: self._do(MaskPainting.redo))
        for key, step in (("<Left>", -1), ("<Right>", 1)):
            canvas.bind(key, _key(partial(self._move, step)))

    def _resize_brush(self, by: float, event: "tk.Event[tk.Canvas]") -> str:
        self._size.move(by)
        self._draw_brush(event.x, event.y)  # a key tells where the pointer is, too
        return "break"

    def _do(self, act: Callable[[MaskPainting], None]) -> str:
        if self.painting is not None:
            act(self.painting)
            self._draw()
            self._enable()
        return "break"

    def _remove(self) -> None:
        if self._content is not None and self._path is not None and self._row is not None:
            path, before = self._path, self._content
            self.painting = self._content = None
            self._save_made(path, lambda: Change(path, before(), None))

    def _enable(self) -> None:
        mask = self.painting
        locked = "" if mask is not None else "There is no mask to paint."
        for name, button in self._buttons.items():
            reason = locked
            if mask is not None and name == "mask undo":
                reason = "" if mask.can_undo else _NOTHING
            elif mask is not None and name == "mask redo":
                reason = "" if mask.can_redo else "Nothing was undone."
            elif mask is not None and name == "mask remove":
                reason = "" if self._content is not None else _NO_MASK
            elif name in ("mask done", "mask next", "mask previous"):
                reason = ""
            button.enable(reason)

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
        return max(0.5 * self._scale, self._size.value / 100 * max(self.painting.image.size) / 2)

    def _pressed(self, event: "tk.Event[tk.Canvas]") -> str:
        self.canvas.focus_set()
        place = self._place(event.x, event.y)
        if place is None or self.painting is None:
            return "break"
        if self.tool == "fill":
            value = IGNORED if int(event.state) & 1 else TRAINED  # with Shift
            self.painting.fill(*place, value, self._opacity.value / 100)
            self._draw()
            self._enable()
        else:
            self._moved(event)
        return "break"

    def _moved(self, event: "tk.Event[tk.Canvas]") -> str:
        place = self._place(event.x, event.y)
        if place is not None and self.painting is not None and self.tool != "fill":
            value = TRAINED if self.tool == "brush" else IGNORED
            self.painting.stroke(*place, self._radius, value, self._opacity.value / 100)
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
        texts = {text: name for name, text in _SHOWN}
        image = self._masked.image
        if self.painting is not None:
            image = self._masked.under(self.painting.image, texts[self._shown.get()])
        view.forget()
        view.image("mask", image, view.width // 2, view.height // 2, 0)

    def _take(self, key: tuple[object, ...], masked: MaskedImage | None) -> None:
        if key == self._loaded:
            self._masked = masked
            self._draw()

    def _draw_brush(self, x: int, y: int) -> None:
        """Draw the outline of the brush around the pointer, visible on any image."""
        self.canvas.delete("brush")
        if self.tool != "fill" and self.painting is not None:
            radius = self._radius / self._scale
            for color, around in (("#000000", radius + 1), ("#ffffff", radius)):
                box = (x - around, y - around, x + around, y + around)
                self.canvas.create_oval(box, outline=color, tags="brush")


def _load(
    path: Path, size: tuple[int, int], read: Callable[[Path], bytes | None]
) -> tuple[bytes | None, MaskPainting]:
    """Return what a mask file holds, and the mask; takes a while for a large one."""
    content = read(path)
    return content, MaskPainting(path, size, content)


def _key(act: Callable[[], object]) -> Callable[["tk.Event[tk.Canvas]"], str]:
    """Return a binding that does something as the whole effect of a key."""

    def pressed(_: "tk.Event[tk.Canvas]") -> str:
        act()
        return "break"

    return pressed
