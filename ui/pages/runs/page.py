"""Page of all runs: those in the runs folder, and in folders of runs shown before."""

import time
import tkinter as tk
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tkinter import ttk
from typing import Literal

from onetrainer.run.history import RunSummary, find_runs
from ui.context import Context, View
from ui.messages.run_standing import standing_text
from ui.progress.rewards import format_score

_COLUMNS: tuple[tuple[str, str, int, Literal["w", "e"]], ...] = (
    ("name", "Name", 150, "w"),
    ("folder", "Folder", 150, "w"),
    ("standing", "State", 140, "w"),
    ("steps", "Steps", 120, "e"),
    ("loss", "Loss or reward", 120, "e"),
    ("changed", "Last change", 140, "e"),
)
_CHOOSE = "Choose a run first."


class RunsPage(View):
    """Table of runs, with buttons to show, reuse and open one."""

    name = "runs"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self._runs: dict[str, RunSummary] = {}
        self._state: tuple[object, ...] = ()
        self.outer: tk.Widget = widgets.frame(parent, ground="window")
        head, _, self._lead = widgets.heading(self.outer, "Runs")
        head.pack(fill="x", padx=widgets.px(28), pady=(widgets.px(21), widgets.px(12)))
        card, inner = widgets.card(self.outer)
        card.pack(fill="both", expand=True, padx=widgets.px(28), pady=(0, widgets.px(20)))
        buttons = widgets.frame(inner)
        buttons.pack(fill="x", pady=(0, widgets.px(10)))
        open_path, load_file = context.act.open_path, context.act.load_file
        self._buttons = [
            widgets.button(buttons, label, partial(self._do, action), name=name)
            for label, action, name in (
                ("Show", context.act.attach, "show run"),
                ("Use settings", lambda path: load_file(path / "config.json"), "use settings"),
                ("Open folder", open_path, "open run folder"),
                ("Make report", context.act.report, "report run"),
            )
        ]
        for button in self._buttons:
            button.widget.pack(side="left", padx=(0, widgets.px(8)))
        again = widgets.button(buttons, "Refresh", self._refresh, kind="quiet")
        again.widget.pack(side="right")
        self._tree = self._make_table(inner)
        self._empty = widgets.label(inner, "No runs yet. Each start creates one.", style="Dim")
        self._enable()

    def refresh(self) -> None:
        """Read the folder again if it may have changed."""
        session = self._context.session
        key = (self._folder(), session.generation, session.is_running, session.state.status)
        if key != self._state:
            self._state = key
            self._refresh()

    def _folder(self) -> Path:
        value = self._context.draft.value("output.folder")
        return Path(str(value or "runs")).expanduser().absolute()

    def _refresh(self) -> None:
        current, known = self._folder(), self._context.window_state.run_folders
        others = [folder for folder in map(Path, known) if folder != current]
        self._lead.say(f"In {current}, and in other folders that runs were in.")
        self._context.widgets.jobs.run(lambda: find_runs(current, *others), self._fill)

    def _make_table(self, parent: tk.Misc) -> ttk.Treeview:
        px = self._context.widgets.px
        names = [name for name, *_ in _COLUMNS]
        tree = ttk.Treeview(parent, columns=names, selectmode="browse", show="headings")
        for name, label, width, anchor in _COLUMNS:
            tree.heading(name, text=label, anchor=anchor)
            tree.column(name, width=px(width), anchor=anchor, stretch=name in ("name", "folder"))
        tree.pack(fill="both", expand=True)
        tree.bind("<<TreeviewSelect>>", lambda _: self._enable())
        for sequence in ("<Double-Button-1>", "<Return>"):
            tree.bind(sequence, lambda _: self._do(self._context.act.attach))
        self._context.widgets.name(tree, "runs table")
        self._context.widgets.on_wheel[tree] = lambda steps: tree.yview_scroll(steps, "units")
        return tree

    def _fill(self, runs: list[RunSummary]) -> None:
        chosen = self._tree.selection()
        self._runs = {str(run.path): run for run in runs}
        self._tree.delete(*self._tree.get_children())
        for key, run in self._runs.items():
            steps = f"{run.step:,} of {run.total_steps:,}" if run.total_steps else "—"
            loss = f"{run.loss:.4f}" if run.loss is not None else "—"
            if run.reward is not None:  # the loss of reward training says nothing more
                loss = f"reward {format_score(run.reward)}"
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.changed))
            values = (run.name, str(run.path.parent), standing_text(run), steps, loss, when)
            self._tree.insert("", "end", iid=key, values=values)
        selected = [key for key in chosen if key in self._runs]
        if selected:
            self._tree.selection_set(selected)
        if runs:
            self._empty.place_forget()
        else:
            self._empty.place(relx=0.5, rely=0.5, anchor="center")
        self._enable()

    def _chosen(self) -> RunSummary | None:
        chosen = self._tree.selection()
        return self._runs.get(chosen[0]) if chosen else None

    def _enable(self) -> None:
        for button in self._buttons:
            button.enable("" if self._chosen() else _CHOOSE)

    def _do(self, action: Callable[[Path], object]) -> None:
        """Do something with the folder of the chosen run."""
        run = self._chosen()
        if run is not None:
            action(run.path)
