"""Page of all runs on this computer: find, compare, go on with, note, tidy."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from tkinter import ttk
from typing import Any

from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from onetrainer.run.own_notes import change_notes
from onetrainer.run.record import RunRecord, read_record
from onetrainer.run.run_folder import RunFolder
from ui.actions.own_runs import ask_label, continue_run, delete_runs, fork_run, queue_again
from ui.context import Context, View
from ui.messages.run_rows import (
    EVERYTHING,
    SORT_KEYS,
    RunRow,
    filtered,
    filters,
    list_runs,
    with_record,
)
from ui.model.run_parents import run_parents
from ui.pages.runs.comparison import ComparedRun, Comparison, read_compared
from ui.pages.runs.details import RunDetails
from ui.pages.runs.table import RunTable
from ui.widgets.button import Button
from ui.widgets.changes import on_change
from ui.widgets.flow import Flow
from ui.widgets.placing import show
from ui.widgets.scroller import Scroller

_CHOOSE = "Choose a run first."
_ALONE = "Choose one run alone."
_MOST_COMPARED = 12
_LEAST, _NARROW = 600, 640
_TYPING_MS = 80


class RunsPage(View):
    """Table of runs with search and filter; what can be done with them; their comparison."""

    name = "runs"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self.rows: list[RunRow] = []
        self._order, self._is_reversed = "when", False
        self._state: tuple[object, ...] = ()
        self._is_reading = self._is_outdated = False
        self._changed: list[RunRecord] = []  # since the reading has begun, which may miss it
        self._timer = ""
        widgets, px = context.widgets, context.widgets.px
        scroller = Scroller(widgets, parent, fills=True, least=_LEAST)
        self.outer: tk.Widget = scroller.outer
        self._page = widgets.frame(scroller.inner, ground="window")
        self._page.grid(sticky="nsew")
        self._search = tk.StringVar(self.outer)
        self._filter = tk.StringVar(self.outer, EVERYTHING)
        self._entry = self._make_head()
        self._list = widgets.frame(self._page, ground="window")
        self._inside: dict[str, Any] = {
            "fill": "both",
            "expand": True,
            "padx": px(28),
            "pady": (0, px(20)),
        }
        card, inner = widgets.card(self._list)
        self._buttons = self._make_buttons(inner)
        self.table = RunTable(
            widgets,
            inner,
            context.images,
            chosen=self._chosen,
            opened=lambda: self._with_one(lambda row: context.act.attach(row.path)),
            order_by=self._order_by,
        )
        self.table.outer.pack(fill="both", expand=True)
        self._empty = widgets.label(inner, "Reading runs …", style="Dim")
        self._empty.place(relx=0.5, rely=0.5, anchor="center")
        one = self._with_one
        self.details = RunDetails(
            widgets,
            self._list,
            {
                "star": self._star,
                "rename": lambda: one(self._rename),
                "delete": self._delete,
                "folder": lambda: one(lambda row: context.act.open_path(row.path)),
                "report": lambda: one(lambda row: context.act.report(row.path)),
            },
            self._change,
        )
        # Below first: of a low window the table gives way.
        self.details.outer.pack(side="bottom", fill="x", pady=(px(14), 0))
        card.pack(fill="both", expand=True)
        self.table.tree.bind("<Delete>", lambda _: self._delete())
        self.comparison = Comparison(context, self._page, self._leave_comparison)
        self._list.pack(**self._inside)
        on_change(self._search, self.outer, self._show_soon)
        self._chosen()

    def refresh(self) -> None:
        """Read the runs again if they may have changed."""
        session = self._context.session
        folder = str(self._context.draft.value("output.folder"))
        key = (folder, session.generation, session.is_running, session.state.status)
        if key != self._state:
            self._state = key
            self._read()
        self._enable()

    def take_focus(self) -> None:
        """Begin with the search, and read the runs again: other programs add some."""
        if not self._is_compared:
            self._entry.focus_set()
        else:
            self.comparison.take_focus()
        self._read()

    def leave(self) -> bool:
        """Go back from a comparison to the list."""
        was_compared = self._is_compared
        if was_compared:
            self._leave_comparison()
        return was_compared

    @property
    def _is_compared(self) -> bool:
        return bool(self.comparison.outer.winfo_manager())

    def commit(self) -> None:
        """Save notes that were changed."""
        self.details.commit()

    def _make_head(self) -> ttk.Entry:
        widgets, px = self._context.widgets, self._context.widgets.px
        line = widgets.frame(self._page, ground="window")
        line.pack(fill="x", padx=px(28), pady=(px(21), px(12)))
        self._find = find = widgets.frame(line, ground="window")
        find.pack(side="right", anchor="s")
        again = widgets.button(find, "Refresh", self._read, kind="quiet", ground="window")
        again.widget.pack(side="right", anchor="s")
        self._choice = ttk.Combobox(
            find, textvariable=self._filter, state="readonly", width=14, font="OneTrainerBody"
        )
        self._choice.bind("<<ComboboxSelected>>", lambda _: self._show())
        self._choice.pack(side="right", anchor="s", padx=px(8))
        widgets.name(self._choice, "filter runs")
        entry = ttk.Entry(find, textvariable=self._search, font="OneTrainerBody", width=26)
        entry.pack(side="right", anchor="s")
        entry.bind("<Down>", lambda _: self._into_table())
        entry.bind("<Escape>", lambda _: self._search.set(""))
        widgets.name(entry, "find runs")
        widgets.label(find, "Search", style="Dim", ground="window").pack(
            side="right", anchor="s", padx=(0, px(8)), pady=(0, px(5))
        )
        head, _, self._lead = widgets.heading(line, "Runs", "All runs on this computer.")
        head.pack(side="left")
        line.bind("<Configure>", lambda _: self._place_search())
        return entry

    def _place_search(self) -> None:
        """Put the search beside the title, or below it where there is no room."""
        px, width = self._context.widgets.px, self._find.master.winfo_width()
        if self._is_compared:
            self._find.pack_forget()
        elif 1 < width < px(_NARROW):
            self._find.pack(side="bottom", anchor="w", pady=(px(8), 0))
        else:
            self._find.pack(side="right", anchor="s", pady=0)

    def _make_buttons(self, parent: tk.Misc) -> dict[str, Button]:
        context, one = self._context, self._with_one
        widgets, px = context.widgets, context.widgets.px
        line = widgets.frame(parent)
        line.pack(fill="x", pady=(0, px(10)))
        load_file = context.act.load_file
        actions: tuple[tuple[str, str, Callable[[], object], str], ...] = (
            ("show run", "Show", lambda: one(lambda row: context.act.attach(row.path)), ""),
            (
                "continue run",
                "Continue",
                lambda: one(lambda row: continue_run(context, row.path)),
                "Trains the remaining steps",
            ),
            (
                "fork run",
                "Fork…",
                lambda: one(lambda row: fork_run(context, row.path)),
                "Starts a new run that goes on from a checkpoint of this one",
            ),
            (
                "use settings",
                "Use settings",
                lambda: one(lambda row: load_file(row.path / "config.json")),
                "Puts the settings of this run into the form",
            ),
            (
                "queue run",
                "Queue again",
                lambda: one(lambda row: queue_again(context, row.record)),
                "A run that has ended is repeated as a new one; any other goes on where it is",
            ),
            (
                "compare runs",
                "Compare",
                self._compare,
                "Settings, curves and samples of the selected runs next to each other",
            ),
        )
        made, flow = {}, Flow(widgets, line)
        for name, label, action, about in actions:
            made[name] = widgets.button(line, label, action, name=name).describe(about)
            flow.add(made[name].widget)
        self._count = widgets.label(line, style="SmallDim")
        flow.add(self._count)
        return made

    def _read(self) -> None:
        """Read the runs in a thread, one reading at a time."""
        if self._is_reading:
            self._is_outdated = True
            return
        self._is_reading, self._is_outdated = True, False
        self._changed.clear()
        folder = self._context.draft.value("output.folder")
        known = {row.path: row for row in self.rows}
        jobs = self._context.widgets.jobs

        def progress(done: int, total: int) -> None:
            jobs.post(partial(self._say_progress, done, total))

        def read() -> list[RunRow]:
            return list_runs(run_parents(folder), known, progress)

        jobs.run(read, self._take, self._not_read)

    def _say_progress(self, done: int, total: int) -> None:
        """Say how far the first reading is, which may take a while."""
        if self._is_reading and not self.rows and done:
            self._empty.say(f"Reading runs: {done:,} of {total:,} …")

    def _take(self, rows: list[RunRow]) -> None:
        self._is_reading = False
        self.rows = reduce(with_record, self._changed, rows)
        self._show()
        if self._is_outdated:
            self._read()

    def _not_read(self, error: Exception) -> None:
        self._is_reading = False
        raise error

    def _show_soon(self) -> None:
        """Show the rows that match once nobody has typed for a moment."""
        if self._timer:
            self.outer.after_cancel(self._timer)
        self._timer = self.outer.after(_TYPING_MS, self._show)

    def _show(self) -> None:
        """Show the rows that match the search, in the chosen order."""
        self._timer = ""
        self._choice.configure(values=filters(self.rows))
        if self._filter.get() not in filters(self.rows):
            self._filter.set(EVERYTHING)
        found = filtered(self.rows, self._search.get(), self._filter.get())
        found.sort(key=SORT_KEYS[self._order], reverse=self._is_reversed)
        self.table.show(self.rows, found)
        of = f" of {len(self.rows):,}" if len(found) < len(self.rows) else ""
        self._count.say(f"{counted(len(found), 'run')}{of}" if self.rows else "")
        self._empty.say("No run matches." if self.rows else "No runs yet. Each start creates one.")
        if found:
            self._empty.place_forget()
        else:
            self._empty.place(relx=0.5, rely=0.5, anchor="center")
        self._chosen()

    def _order_by(self, column: str) -> None:
        self._is_reversed = column == self._order and not self._is_reversed
        self._order = column
        self._show()

    def _into_table(self) -> str:
        shown = self.table.shown
        if shown:
            self.table.select(shown[0])
            self.table.tree.focus_set()
        return "break"

    def _chosen(self) -> None:
        self.details.show(self.table.chosen)
        self._enable()

    def _enable(self) -> None:
        chosen = self.table.chosen
        one = "" if len(chosen) == 1 else (_ALONE if chosen else _CHOOSE)
        standing = chosen[0].record.summary.standing if chosen else ""
        blocked = one or self._context.act.start_blocked_reason()
        running = "This run is running." if standing == "running" else ""
        over = "This run has finished all its steps." if standing == "finished" else ""
        kept = not one and not RunFolder(chosen[0].path).newest_step()
        several = "" if 1 < len(chosen) <= _MOST_COMPARED else f"Choose 2 to {_MOST_COMPARED} runs."
        reasons = {
            "show run": one,
            "continue run": running or blocked or over,
            "fork run": blocked or ("This run has no checkpoint." if kept else ""),
            "use settings": one,
            "queue run": one or running,
            "compare runs": several,
        }
        for name, button in self._buttons.items():
            button.enable(reasons[name])

    def _with_one(self, do: Callable[[RunRow], object]) -> None:
        """Do something with the run that is selected alone."""
        chosen = self.table.chosen
        if len(chosen) == 1:
            do(chosen[0])

    def _star(self) -> None:
        chosen = self.table.chosen
        is_starred = all(row.record.notes.is_starred for row in chosen)
        for row in chosen:
            self._change(row, {"is_starred": not is_starred})

    def _rename(self, row: RunRow) -> None:
        label = ask_label(self._context, row.record)
        if label is not None:
            self._change(row, {"label": label})

    def _delete(self) -> None:
        chosen = [row.record for row in self.table.chosen]
        if chosen:
            delete_runs(self._context, chosen, self._read)

    def _change(self, row: RunRow, changes: dict[str, Any]) -> None:
        """Show a person's notes on a run, and write them."""
        folder, record = RunFolder(row.path), row.record
        notes = replace(record.notes, **changes)
        # Of no version, so that the next reading reads it again, also if it cannot be saved.
        self._take_record(replace(record, notes=notes, version=""))

        def write() -> RunRecord:
            change_notes(folder, **changes)
            return read_record(folder)

        def failed(error: Exception) -> None:
            self._read()
            if not isinstance(error, UserError):
                raise error
            self._context.act.show_message(f"Not saved: {error}")

        self._context.widgets.jobs.run_in_order(write, self._take_record, failed)

    def _take_record(self, record: RunRecord) -> None:
        self._changed.append(record)
        self.rows = with_record(self.rows, record)
        self._show()

    def _compare(self) -> None:
        chosen = self.table.chosen[:_MOST_COMPARED]
        chosen.sort(key=lambda row: row.record.began)
        self._context.widgets.jobs.run(partial(read_compared, chosen), self._show_comparison)

    def _show_comparison(self, runs: list[ComparedRun]) -> None:
        self.comparison.show(runs)
        show(self._list, False)
        show(self.comparison.outer, True, **self._inside)
        self._place_search()
        self.comparison.take_focus()

    def _leave_comparison(self) -> None:
        show(self.comparison.outer, False)
        show(self._list, True, **self._inside)
        self._place_search()
        self.table.tree.focus_set()
