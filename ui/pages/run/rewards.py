"""Reward training on the run page: verdict, trend plots and evaluation grid."""

import json
import tkinter as tk
from pathlib import Path
from tkinter import ttk

from onetrainer.config.rewards.evaluation import Evaluation
from ui.charts.trend_plots import TrendPlots
from ui.context import Context
from ui.pages.run.banner import RunBanner
from ui.pages.run.reward_grid import RewardGrid
from ui.progress.rewards import VERDICTS, image_scores_text, reward_trends, sample_book
from ui.progress.samples import SampleBook
from ui.widgets.scroller import Scroller
from ui.widgets.viewer import Viewer

_LEGEND_NEEDS = 500


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
        kit = context.kit
        self._grid = RewardGrid(context, left.master, page, self.open)
        self._card, inner = kit.card(left)
        head = kit.frame(inner)
        head.pack(fill="x")
        kit.label(head, "Since the base", style="Heading").pack(side="left")
        self._verdict: ttk.Label = kit.label(head, style="Small")
        self._verdict.pack(side="left", padx=(kit.px(12), 0))
        self._legend = self._make_legend(head)
        self._summary: ttk.Label = kit.label(inner, wrap=500)
        self._plots = TrendPlots(kit, inner)
        self._plots.canvas.pack(fill="x", pady=(kit.px(8), 0))
        inner.bind("<Configure>", self._wrap)
        self._viewer_box = kit.frame(left.master, ground="window")
        self._viewer: Viewer | None = None
        self._head = kit.frame(self._viewer_box, ground="window")
        self._scores: ttk.Label = kit.label(self._head, style="Dim", ground="window")
        self._book = SampleBook()
        self._selected = (0, 0)
        self._state: tuple[object, ...] = ()
        self._least_diversity = Evaluation().least_diversity

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
            self._least_diversity = _least_diversity(folder.config)
        self._state = key
        self._show_grid(newest is not None)
        if newest is None:
            return
        label, tone = VERDICTS.get(newest.verdict, ("", "dim"))
        self._verdict.configure(text=label, style=f"Small{tone.capitalize()}.Card.TLabel")
        self._summary.configure(text=newest.message)
        if is_repeated:
            self._summary.pack_forget()
        else:
            self._summary.pack(
                anchor="w", pady=(self._context.kit.px(2), 0), before=self._plots.canvas
            )
        self._plots.show(reward_trends(rewards, least_diversity=self._least_diversity))
        self._grid.show(folder.path, rewards)
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
        if not self._viewer_box.winfo_manager():
            return
        self._scores.configure(text="")
        self._viewer_box.pack_forget()
        self._left.pack(side="left", fill="both", expand=True)
        self._grid.take_focus()

    def _make_legend(self, head: tk.Misc) -> ttk.Frame:
        kit, gap = self._context.kit, self._context.kit.px(10)
        legend = kit.frame(head)
        kit.label(legend, "▬ trained", style="SmallAccent").pack(side="left")
        evaluated = tk.Label(legend, text="┅ monitored", font="OneTrainerSmall", borderwidth=0)
        kit.theme.paint(evaluated, bg="card", fg="validation")
        evaluated.pack(side="left", padx=(gap, 0))
        return legend

    def _make_viewer(self) -> Viewer:
        kit = self._context.kit
        self._head.pack(fill="x", pady=(0, kit.px(8)))
        back = kit.button(
            self._head, "‹  Curves", self.close, name="reward curves", kind="quiet", ground="window"
        )
        back.describe("Esc").widget.pack(side="left")
        self._scores.pack(side="left", padx=(kit.px(10), 0))
        viewer = Viewer(
            kit, self._viewer_box, self._context.images, self._show_image, name="reward"
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
        self._scores.configure(text=image_scores_text(rewards, *self._selected))
        self._viewer.show(folder.path, self._book, *self._selected)

    def _show_grid(self, has_evaluations: bool) -> None:
        px = self._context.kit.px
        if has_evaluations == bool(self._grid.outer.winfo_manager()):
            return
        if has_evaluations:
            self._samples.pack_forget()
            self._grid.outer.pack(side="right", fill="y", padx=(px(14), 0), before=self._left)
            first = self._left.winfo_children()[0]
            self._card.pack(side="bottom", fill="x", pady=(px(14), 0), before=first)
        else:
            self._grid.outer.pack_forget()
            self._card.pack_forget()
            self._samples.pack(side="right", fill="y", padx=(px(14), 0), before=self._left)

    def _wrap(self, event: "tk.Event[tk.Misc]") -> None:
        self._summary.configure(wraplength=max(200, event.width - 8))
        if event.width >= self._context.kit.px(_LEGEND_NEEDS):
            self._legend.pack(side="right")
        else:
            self._legend.pack_forget()


def _least_diversity(config: Path) -> float:
    """Return the guard's minimum diversity, from the config of the run or by default."""
    try:
        known = json.loads(config.read_text("utf-8"))["objective"]["evaluation"]
        return float(known["least_diversity"])
    except (OSError, ValueError, KeyError, TypeError):
        return Evaluation().least_diversity
