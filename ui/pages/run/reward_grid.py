"""Grid of evaluation images: base, best and newest, each with its rewards."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tkinter import ttk

from ui.context import Context
from ui.messages.line_breaks import shorten
from ui.progress.rewards import GridColumn, GridImage, Rewards, grid_columns, grid_rows
from ui.widgets.scroller import Scroller
from ui.widgets.thumbnails import Thumbnails
from ui.widgets.timeline import Timeline
from ui.widgets.widgets import focused

_CELL, _GAP = 104, 8
_HEAD, _LINE = 18, 15
_COLUMNS = 3
_MIN_HEIGHT = 190
_FONT = "OneTrainerSmall"


class RewardGrid:
    """Grid that draws only visible rows; a slider replaces the newest evaluation by another.

    Args:
        opened: Called with row and step of an image on click or Return.
    """

    def __init__(
        self, context: Context, parent: tk.Misc, page: Scroller, opened: Callable[[int, int], None]
    ) -> None:
        self._context = context
        self._page = page
        self._opened = opened
        kit = context.kit
        self._rewards = Rewards()
        self._rows: list[tuple[str, int]] = []
        self._columns: list[GridColumn] = []
        self._step: int | None = None
        self._current = (0, 0)
        self._folder = Path()
        self.outer, inner = kit.card(parent)
        kit.label(inner, "Evaluation prompts", style="Heading").pack(anchor="w")
        width = _COLUMNS * kit.px(_CELL + _GAP)
        self._heads = tk.Canvas(inner, width=width, height=kit.px(_HEAD), highlightthickness=0)
        self._heads.configure(takefocus=0)
        self._heads.pack(anchor="w", pady=(kit.px(4), 0))
        self.timeline = Timeline(kit, inner, self._select_step, name="evaluation timeline")
        box = kit.frame(inner)
        box.pack(fill="both", expand=True)
        self._canvas = tk.Canvas(
            box, width=width, height=kit.px(_MIN_HEIGHT), highlightthickness=0, takefocus=1
        )
        self._thumbnails = Thumbnails(kit, self._canvas)
        self._bar = ttk.Scrollbar(box, orient="vertical", command=self._yview)
        self._canvas.configure(yscrollcommand=self._bar.set, yscrollincrement=kit.px(20))
        self._canvas.pack(side="left", fill="y", expand=True)
        for canvas in (self._heads, self._canvas):
            kit.theme.paint(canvas, bg="card")
        kit.name(self._canvas, "reward grid")
        self._bind()

    def show(self, folder: Path, rewards: Rewards) -> None:
        """Show the evaluations of a run; follow the newest until the user selects another."""
        if folder != self._folder:
            self._thumbnails.forget()
            self._step, self._current = None, (0, 0)
        self._folder, self._rewards = folder, rewards
        self._refresh()

    def take_focus(self) -> None:
        """Move the keyboard focus to the grid."""
        self._canvas.focus_set()

    def _refresh(self) -> None:
        rewards = self._rewards
        if self._step is not None and rewards.at(self._step) is None:
            self._step = None
        self._rows, self._columns = grid_rows(rewards), grid_columns(rewards, self._step)
        steps = [evaluation.step for evaluation in rewards.evaluations]
        if len(steps) > 1:
            self.timeline.show(steps, self._columns[-1].step)
            if not self.timeline.canvas.winfo_manager():
                self.timeline.canvas.pack(
                    side="bottom", fill="x", pady=(self._context.kit.px(6), 0)
                )
        else:
            self.timeline.canvas.pack_forget()
        row, column = self._current
        self._current = (
            max(0, min(row, len(self._rows) - 1)),
            max(0, min(column, len(self._columns) - 1)),
        )
        self.draw()

    def _select_step(self, step: int) -> None:
        newest = self._rewards.newest
        self._step = None if newest is None or step == newest.step else step
        self._refresh()

    def draw(self) -> None:
        """Draw the visible part."""
        canvas, px = self._canvas, self._context.kit.px
        self._thumbnails.begin()
        self._draw_heads()
        height = self._row_height()
        whole = len(self._rows) * height
        canvas.configure(scrollregion=(0, 0, canvas.winfo_width(), max(1, whole)))
        self._place_bar(whole > canvas.winfo_height() > 1)
        top = max(0, int(canvas.canvasy(0) // height))
        bottom = min(len(self._rows), int(canvas.canvasy(canvas.winfo_height()) // height) + 1)
        for row in range(top, bottom):
            self._draw_row_head(row)
            for index, column in enumerate(self._columns):
                self._draw_cell(row, index, column.cells[row])
        if focused(canvas) is canvas and self._rows:
            x, y = self._corner(*self._current)
            half, color = px(_CELL) // 2, self._context.kit.theme.palette.accent
            self._thumbnails.outline(x + half, y + half, px(_CELL) - 2, color=color)

    def _draw_heads(self) -> None:
        palette, px = self._context.kit.theme.palette, self._context.kit.px
        self._heads.delete("all")
        for index, column in enumerate(self._columns):
            is_best = column.title.startswith("best")
            self._heads.create_text(
                index * px(_CELL + _GAP) + 1,
                0,
                text=column.title,
                anchor="nw",
                font=_FONT,
                fill=palette.good if is_best else palette.text,
            )

    def _draw_row_head(self, row: int) -> None:
        prompt, seed = self._rows[row]
        px, canvas = self._context.kit.px, self._canvas
        end, measure = f" · seed {seed}", self._context.kit.theme.measure
        room = _COLUMNS * px(_CELL + _GAP) - px(_GAP) - measure(end)
        canvas.create_text(
            1,
            row * self._row_height() + px(2),
            text=shorten(" ".join(prompt.split()) or "(no prompt)", room, measure) + end,
            anchor="nw",
            font=_FONT,
            fill=self._context.kit.theme.palette.dim,
        )

    def _draw_cell(self, row: int, index: int, cell: GridImage | None) -> None:
        if cell is None:
            return
        px = self._context.kit.px
        x, y = self._corner(row, index)
        side = px(_CELL)
        path = self._folder / cell.path
        image = self._context.images.get(path, side, side, self.draw)
        self._thumbnails.draw((path, side), image, x + side // 2, y + side // 2, side)
        for line, (name, figure) in enumerate(cell.lines):
            foot = y + side + px(2) + line * px(_LINE)
            self._write(x, foot, name, figure)

    def _write(self, x: int, y: int, name: str, figure: str) -> None:
        """Write a value at the right of an image, and as much of its name as fits."""
        palette, px, canvas = self._context.kit.theme.palette, self._context.kit.px, self._canvas
        measure = self._context.kit.theme.measure
        room = px(_CELL - 4) - measure(figure)
        name = shorten(name, room, measure)
        right = x + px(_CELL)
        canvas.create_text(right, y, text=figure, anchor="ne", font=_FONT, fill=palette.text)
        canvas.create_text(x, y, text=name, anchor="nw", font=_FONT, fill=palette.dim)

    def _row_height(self) -> int:
        px = self._context.kit.px
        cells = (cell for column in self._columns for cell in column.cells if cell)
        lines = max((len(cell.lines) for cell in cells), default=0)
        return px(_HEAD + 2 + _CELL + _GAP) + lines * px(_LINE)

    def _corner(self, row: int, index: int) -> tuple[int, int]:
        px = self._context.kit.px
        return index * px(_CELL + _GAP), row * self._row_height() + px(_HEAD + 2)

    def _place_bar(self, is_needed: bool) -> None:
        if is_needed and not self._bar.winfo_manager():
            self._bar.pack(side="right", fill="y")
        elif not is_needed:
            self._bar.pack_forget()
            self._canvas.yview_moveto(0)

    def _bind(self) -> None:
        canvas = self._canvas
        for sequence in ("<Configure>", "<<ThemeChanged>>", "<FocusIn>", "<FocusOut>"):
            canvas.bind(sequence, lambda _: self.draw())
        canvas.bind("<Button-1>", self._clicked)
        steps = {"Left": (0, -1), "Right": (0, 1), "Up": (-1, 0), "Down": (1, 0)}
        jumps = {"Home": (-(10**6), 0), "End": (10**6, 0), "Prior": (-2, 0), "Next": (2, 0)}
        for key, by in {**steps, **jumps}.items():
            canvas.bind(f"<{key}>", partial(self._move, *by))
        for key in ("<Return>", "<KP_Enter>", "<space>"):
            canvas.bind(key, lambda _: self._open())
        self._context.kit.on_wheel[canvas] = self._on_wheel

    def _move(self, rows: int, columns: int, _: "tk.Event[tk.Canvas]") -> str:
        row, index = self._current
        self._current = (
            max(0, min(row + rows, len(self._rows) - 1)),
            max(0, min(index + columns, len(self._columns) - 1)),
        )
        self._page.show(self._canvas)
        self._scroll_to_row(self._current[0])
        self.draw()
        return "break"

    def _scroll_to_row(self, row: int) -> None:
        """Scroll until a whole row is visible."""
        canvas, height = self._canvas, self._row_height()
        whole = max(1, len(self._rows) * height)
        if row * height < canvas.canvasy(0):
            canvas.yview_moveto(row * height / whole)
        elif (row + 1) * height > canvas.canvasy(canvas.winfo_height()):
            canvas.yview_moveto(((row + 1) * height - canvas.winfo_height() + 20) / whole)

    def _open(self) -> str:
        row, index = self._current
        if row < len(self._rows) and index < len(self._columns):
            self._opened(row, self._columns[index].step)
        return "break"

    def _clicked(self, event: "tk.Event[tk.Canvas]") -> str:
        px = self._context.kit.px
        index = event.x // px(_CELL + _GAP)
        row = int(self._canvas.canvasy(event.y) // self._row_height())
        if 0 <= index < len(self._columns) and 0 <= row < len(self._rows):
            self._current = (row, index)
            self._open()
        # Otherwise customtkinter would take the focus away from this canvas again.
        return "break"

    def _yview(self, *arguments: str) -> None:
        self._canvas.yview(*arguments)
        self.draw()

    def _on_wheel(self, steps: int) -> None:
        """Scroll the grid, and the page once the grid is at its end."""
        first, last = self._canvas.yview()
        if (steps < 0 and first <= 0) or (steps > 0 and last >= 1):
            self._page.scroll_by(steps)
            return
        self._canvas.yview_scroll(3 * steps, "units")
        self.draw()
