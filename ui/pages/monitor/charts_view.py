"""All charts of the displayed run."""

import tkinter as tk

from ui.actions.figure_files import FigureFiles
from ui.charts.figure_view import FigureView
from ui.context import Context

_DRAW_EVERY_MS = 1000


class ChartsView:
    """Charts that follow the run once a second, and only while visible; place `outer`."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._files = FigureFiles(context)
        self._timer = ""
        self._shown: tuple[object, ...] = ()
        self.outer, inner = context.widgets.card(parent)
        view = FigureView(
            context.widgets,
            inner,
            name="charts",
            save_picture=self._save_picture,
            save_table=self._save_table,
        )
        view.outer.pack(fill="both", expand=True)
        self.charts = view.charts
        self.outer.bind("<Map>", lambda _: self.refresh())

    def refresh(self) -> None:
        """Schedule a redraw."""
        if not self._timer:
            self._timer = self.outer.after(_DRAW_EVERY_MS if self._shown else 1, self._draw)

    def take_focus(self) -> None:
        """Give the keyboard to the charts."""
        self.charts.canvas.focus_set()

    def leave(self) -> bool:
        """Show all charts and steps again; return whether that was another view."""
        look = self.charts.look
        if look.only:
            self.charts.enlarge()
        elif look.span:
            self.charts.show_whole()
        return bool(look.only or look.span)

    def _draw(self) -> None:
        self._timer = ""
        session = self._context.session
        state, folder = session.state, session.folder
        counts = (state.step, len(state.samples), len(state.checkpoints), len(state.validation))
        key = (session.generation, *counts, state.rewards.count)
        if key == self._shown or folder is None or not self.outer.winfo_ismapped():
            return
        if not self._shown or self._shown[0] != session.generation:
            self.charts.set_look(span=None)
        self._shown = key
        self.charts.show([(folder.name, state)])

    def _save_picture(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._files.save_picture(folder, self.charts.data, self.charts.look)

    def _save_table(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._files.save_table([folder])
