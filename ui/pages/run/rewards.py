"""Reward training on the run page: verdict, trend plots and evaluation grid."""

import tkinter as tk
from pathlib import Path
from tkinter import ttk

from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.files.inside import read_inside
from onetrainer.files.own_json import parse_object
from ui.charts.trend_plots import TrendPlots
from ui.context import Context
from ui.pages.run.banner import RunBanner
from ui.progress.rewards import (
    VERDICTS,
    GridColumn,
    Rewards,
    grid_columns,
    grid_rows,
    image_scores_text,
    reward_trends,
    sample_book,
)
from ui.progress.samples import SampleBook
from ui.theme.palette import Role
from ui.theme.theme import SMALL
from ui.widgets.image_table import Cell, Head, ImageTable, TableLook
from ui.widgets.placing import show, toned, wrap_within
from ui.widgets.scroller import Scroller
from ui.widgets.timeline import Timeline
from ui.widgets.viewer import Viewer

_LEGEND_NEEDS = 500
_GRID = TableLook("reward grid", 104, 8, 18, height=208, columns=3, takes_keys=True)


class RunRewards:
    """Cards of reward training, shown from the first evaluation on.

    Args:
        left: Frame with the chart. The trend plots are placed below it; an opened image
            replaces it.
        samples: Widget that the grid replaces.
        banner: Banner of the page, whose text is not repeated.
    """

    def __init__(
        self,
        context: Context,
        left: ttk.Frame,
        samples: tk.Widget,
        page: Scroller,
        banner: RunBanner,
    ) -> None:
        self._context = context
        self._banner = banner
        self._left, self._samples = left, samples
        widgets = context.widgets
        self._grid_card, inner = widgets.card(left.master)
        widgets.label(inner, "Evaluation prompts", style="Heading").pack(anchor="w")
        self._timeline = Timeline(widgets, inner, self._select_step, name="evaluation timeline")
        self._grid = ImageTable(widgets, inner, context.images, self._chosen, _GRID, page)
        self._grid.outer.pack(fill="both", expand=True, pady=(widgets.px(4), 0))
        self._columns: list[GridColumn] = []
        # Evaluation in place of the newest; None for none.
        self._step: int | None = None
        self._card, head, inner = widgets.titled_card(left, "Since the base")
        self._verdict = widgets.label(head, style="Small")
        self._verdict.pack(side="left", padx=(widgets.px(12), 0))
        self._legend = self._make_legend(head)
        self._summary = widgets.label(inner, wrap=500)
        self._plots = TrendPlots(widgets, inner)
        self._plots.canvas.pack(fill="x", pady=(widgets.px(8), 0))
        wrap_within(inner, self._summary)
        needed = widgets.px(_LEGEND_NEEDS)
        inner.bind(
            "<Configure>", lambda e: show(self._legend, e.width >= needed, side="right"), add="+"
        )
        self._viewer_box = widgets.frame(left.master, ground="window")
        self._viewer: Viewer | None = None
        self._head = widgets.frame(self._viewer_box, ground="window")
        self._scores = widgets.label(self._head, style="Dim", ground="window")
        self._book = SampleBook()
        self._selected = (0, 0)
        self._state: tuple[object, ...] = ()
        self._min_diversity = Evaluation().min_diversity

    def refresh(self) -> None:
        """Show the current state."""
        session = self._context.session
        rewards, folder = session.state.rewards, session.folder
        newest = rewards.newest
        is_repeated = newest is not None and newest.message in self._banner.text
        key = (session.generation, len(rewards.evaluations), newest, is_repeated)
        if key == self._state or folder is None:
            return
        if key[0] != (self._state or (None,))[0]:
            self.close()
            self._step = None
            self._min_diversity = _min_diversity(folder.config)
        self._state = key
        self._show_cards(newest is not None)
        if newest is None:
            return
        label, tone = VERDICTS.get(newest.verdict, ("", "dim"))
        self._verdict.say(label, toned(tone, "Small"))
        self._summary.say(newest.message)
        pad = (self._context.widgets.px(2), 0)
        show(self._summary, not is_repeated, anchor="w", pady=pad, before=self._plots.canvas)
        self._plots.show(reward_trends(rewards, min_diversity=self._min_diversity))
        self._show_grid(rewards, folder.path)
        self._book = sample_book(rewards)
        if self._viewer_box.winfo_manager():
            self._show_image(*self._selected)

    def open(self, row: int, step: int) -> None:
        """Show an image of the grid large, in place of the chart."""
        if self._viewer is None:
            self._viewer = self._make_viewer()
        self._left.pack_forget()
        self._viewer_box.pack(side="left", fill="both", expand=True)
        self._show_image(row, step)
        self._viewer.take_focus()

    def close(self) -> None:
        """Show the chart again."""
        if self._viewer_box.winfo_manager():
            self._scores.say("")
            self._viewer_box.pack_forget()
            self._left.pack(side="left", fill="both", expand=True)
            self._grid.canvas.focus_set()

    def _make_legend(self, head: tk.Misc) -> ttk.Frame:
        widgets, gap = self._context.widgets, self._context.widgets.px(10)
        legend = widgets.frame(head)
        widgets.label(legend, "— trained", style="SmallAccent").pack(side="left")
        evaluated = tk.Label(legend, text="- - monitored", font=SMALL, borderwidth=0)
        widgets.theme.paint(evaluated, bg="card", fg="validation")
        evaluated.pack(side="left", padx=(gap, 0))
        return legend

    def _make_viewer(self) -> Viewer:
        widgets = self._context.widgets
        self._head.pack(fill="x", pady=(0, widgets.px(8)))
        back = widgets.button(
            self._head, "‹  Curves", self.close, name="reward curves", kind="quiet", ground="window"
        )
        back.describe("Esc").widget.pack(side="left")
        self._scores.pack(side="left", padx=(widgets.px(10), 0))
        viewer = Viewer(
            widgets, self._viewer_box, self._context.images, self._show_image, name="reward"
        )
        viewer.outer.pack(fill="both", expand=True)
        viewer.timeline.canvas.bind("<Escape>", lambda _: self.close())
        return viewer

    def _show_image(self, row: int, step: int) -> None:
        folder = self._context.session.folder
        sample = self._book.nearest(row, step)
        if self._viewer is None or folder is None or sample is None:
            return
        self._selected = (row, sample.step)
        rewards = self._context.session.state.rewards
        self._scores.say(image_scores_text(rewards, *self._selected))
        self._viewer.show(folder.path, self._book, *self._selected)

    def _show_grid(self, rewards: Rewards, folder: Path) -> None:
        """Show the grid; it follows the newest evaluation until the user selects another."""
        if self._step is not None and rewards.at(self._step) is None:
            self._step = None
        self._columns = grid_columns(rewards, self._step)
        rows = [
            Head(" ".join(prompt.split()) or "(no prompt)", "dim", f" · seed {seed}")
            for prompt, seed in grid_rows(rewards)
        ]
        colors: dict[bool, Role] = {True: "good", False: "text"}
        heads = [Head(one.title, colors[one.title.startswith("best")]) for one in self._columns]
        cells = [
            [cell and Cell(folder / cell[0], cell[1]) for cell in row]
            for row in zip(*(column.cells for column in self._columns), strict=True)
        ]
        lines = max((len(cell.lines) for row in cells for cell in row if cell), default=0)
        self._grid.show(rows, heads, lambda row, column: cells[row][column], lines=lines)
        steps = [evaluation.step for evaluation in rewards.evaluations]
        if len(steps) > 1:
            self._timeline.show(steps, self._columns[-1].step)
        pad = (self._context.widgets.px(6), 0)
        before = {"before": self._grid.outer}
        show(self._timeline.canvas, len(steps) > 1, side="bottom", fill="x", pady=pad, **before)

    def _select_step(self, step: int) -> None:
        session = self._context.session
        newest = session.state.rewards.newest
        self._step = None if newest is None or step == newest.step else step
        if session.folder is not None:
            self._show_grid(session.state.rewards, session.folder.path)

    def _chosen(self, row: int, column: int) -> None:
        self.open(row, self._columns[column].step)

    def _show_cards(self, has_evaluations: bool) -> None:
        px = self._context.widgets.px
        if has_evaluations == bool(self._grid_card.winfo_manager()):
            return
        first = self._left.winfo_children()[0]
        above = {"side": "bottom", "fill": "x", "pady": (px(14), 0), "before": first}
        show(self._card, has_evaluations, **above)
        right = {"side": "right", "fill": "y", "padx": (px(14), 0), "before": self._left}
        show(self._samples, not has_evaluations, **right)
        show(self._grid_card, has_evaluations, **right)


def _min_diversity(config: Path) -> float:
    """Return the guard's minimum diversity, from the config of the run or by default."""
    try:
        known = parse_object(read_inside(config))["objective"]["evaluation"]
        return float(known["min_diversity"])
    except (OSError, ValueError, KeyError, TypeError):
        return Evaluation().min_diversity
