"""Grid of all samples on one canvas: a row for each prompt, a column for each step."""

import tkinter as tk
from collections.abc import Callable
from pathlib import Path
from tkinter import ttk

from ui.background.image_cache import ImageCache
from ui.messages.line_breaks import shorten
from ui.progress.samples import SampleBook, thumbnail
from ui.widgets.thumbnails import Thumbnails
from ui.widgets.widgets import Kit

_CELL = 84
_GAP = 6
_HEAD = 20
_ROW_HEAD = 22


class Gallery:
    """Canvas that draws only the visible thumbnails; the newest step is at the right end."""

    def __init__(
        self, kit: Kit, parent: tk.Misc, images: ImageCache, chosen: Callable[[int, int], None]
    ) -> None:
        self._kit = kit
        self._images = images
        self._chosen = chosen
        self._book = SampleBook()
        self._folder = Path()
        self._current = (0, 0)
        self._columns = 0
        self.outer = kit.frame(parent)
        self._canvas = tk.Canvas(self.outer, highlightthickness=0, takefocus=0, width=1, height=1)
        kit.theme.paint(self._canvas, bg="card")
        self._thumbnails = Thumbnails(kit, self._canvas)
        self._across = ttk.Scrollbar(self.outer, orient="horizontal", command=self._xview)
        self._down = ttk.Scrollbar(self.outer, orient="vertical", command=self._yview)
        self._canvas.configure(xscrollcommand=self._across.set, yscrollcommand=self._down.set)
        self.outer.grid_rowconfigure(0, weight=1)
        self.outer.grid_columnconfigure(0, weight=1)
        self._canvas.grid(row=0, column=0, sticky="nsew")
        self._canvas.bind("<Configure>", lambda _: self._resized())
        self._canvas.bind("<<ThemeChanged>>", lambda _: self.draw())
        self._canvas.bind("<Button-1>", self._clicked)
        kit.on_wheel[self._canvas] = self._on_wheel
        kit.name(self._canvas, "gallery")

    def show(self, folder: Path, book: SampleBook, prompt: int, step: int) -> None:
        """Show the samples of a run and mark the selected one."""
        if folder != self._folder:
            self._thumbnails.forget()
        is_longer = len(book.steps) != self._columns
        self._folder, self._book = folder, book
        self._current = (prompt, step)
        self._columns = len(book.steps)
        self._measure()
        if is_longer:
            self._canvas.xview_moveto(1.0)
        self._scroll_to_current()
        self.draw()

    def draw(self) -> None:
        """Draw the visible part."""
        canvas, px = self._canvas, self._kit.px
        self._thumbnails.begin()
        steps, prompts = self._book.steps, self._book.prompts
        if not steps:
            return
        pitch, height = px(_CELL + _GAP), self._row_height()
        first = max(0, int(canvas.canvasx(0) // pitch))
        last = min(len(steps), int(canvas.canvasx(canvas.winfo_width()) // pitch) + 1)
        top = max(0, int((canvas.canvasy(0) - px(_HEAD)) // height))
        bottom = min(len(prompts), int(canvas.canvasy(canvas.winfo_height()) // height) + 1)
        for row in range(top, bottom):
            self._draw_row_head(row, prompts[row])
            for column in range(first, last):
                self._draw_cell(row, column, prompts[row], steps[column])
        for column in range(first, last):
            self._draw_head(column, steps[column])

    def _draw_head(self, column: int, step: int) -> None:
        x = column * self._kit.px(_CELL + _GAP) + self._kit.px(_CELL) // 2
        is_current = step == self._current[1]
        palette = self._kit.theme.palette
        self._canvas.create_text(
            x,
            self._canvas.canvasy(0),
            text=f"{step:,}",
            anchor="n",
            font="OneTrainerSmall",
            fill=palette.accent if is_current else palette.dim,
        )

    def _draw_row_head(self, row: int, prompt: int) -> None:
        sample = self._book.nearest(prompt, 0)
        px = self._kit.px
        palette = self._kit.theme.palette
        label = " ".join((sample.prompt if sample else "").split())
        room = self._canvas.winfo_width() - px(6)
        self._canvas.create_text(
            self._canvas.canvasx(0) + 1,
            px(_HEAD) + row * self._row_height() + px(2),
            text=shorten(label or "(no prompt)", room, self._kit.theme.measure),
            anchor="nw",
            font="OneTrainerSmall",
            fill=palette.accent if prompt == self._current[0] else palette.dim,
        )

    def _draw_cell(self, row: int, column: int, prompt: int, step: int) -> None:
        sample = self._book.at(prompt, step)
        if sample is None:
            return
        px = self._kit.px
        side = px(_CELL)
        x = column * px(_CELL + _GAP)
        y = px(_HEAD) + row * self._row_height() + px(_ROW_HEAD)
        path = thumbnail(self._folder, sample)
        image = self._images.get(path, side, side, self.draw)
        middle = x + side // 2, y + side // 2
        self._thumbnails.draw((path, side), image, *middle, side)
        if (prompt, step) == self._current:
            self._thumbnails.outline(*middle, side - 2, color=self._kit.theme.palette.accent)

    def _row_height(self) -> int:
        return self._kit.px(_ROW_HEAD + _CELL + _GAP)

    def _measure(self) -> None:
        px = self._kit.px
        width = len(self._book.steps) * px(_CELL + _GAP)
        height = px(_HEAD) + len(self._book.prompts) * self._row_height()
        self._canvas.configure(
            scrollregion=(0, 0, width, height),
            xscrollincrement=px(_CELL + _GAP) // 3,
            yscrollincrement=px(20),
        )
        for bar, is_needed, row, column in (
            (self._across, width > self._canvas.winfo_width(), 1, 0),
            (self._down, height > self._canvas.winfo_height(), 0, 1),
        ):
            if is_needed:
                bar.grid(row=row, column=column, sticky="nsew")
            else:
                bar.grid_remove()

    def _scroll_to_current(self) -> None:
        steps = self._book.steps
        if self._current[1] not in steps:
            return
        pitch = self._kit.px(_CELL + _GAP)
        left = steps.index(self._current[1]) * pitch
        width = max(1, len(steps) * pitch)
        if left < self._canvas.canvasx(0):
            self._canvas.xview_moveto(left / width)
        elif left + pitch > self._canvas.canvasx(self._canvas.winfo_width()):
            self._canvas.xview_moveto((left + pitch - self._canvas.winfo_width()) / width)

    def _resized(self) -> None:
        self._measure()
        self._scroll_to_current()
        self.draw()

    def _xview(self, *arguments: str) -> None:
        self._canvas.xview(*arguments)
        self.draw()

    def _yview(self, *arguments: str) -> None:
        self._canvas.yview(*arguments)
        self.draw()

    def _on_wheel(self, steps: int) -> None:
        px = self._kit.px
        height = px(_HEAD) + len(self._book.prompts) * self._row_height()
        if height > self._canvas.winfo_height():
            self._canvas.yview_scroll(2 * steps, "units")
        elif len(self._book.steps) * px(_CELL + _GAP) > self._canvas.winfo_width():
            self._canvas.xview_scroll(steps, "units")
        self.draw()

    def _clicked(self, event: "tk.Event[tk.Canvas]") -> str:
        px = self._kit.px
        column = int(self._canvas.canvasx(event.x) // px(_CELL + _GAP))
        row = int((self._canvas.canvasy(event.y) - px(_HEAD)) // self._row_height())
        steps, prompts = self._book.steps, self._book.prompts
        if 0 <= column < len(steps) and 0 <= row < len(prompts):
            self._chosen(prompts[row], steps[column])
        # Otherwise customtkinter would move the focus to this canvas, which handles no keys.
        return "break"
