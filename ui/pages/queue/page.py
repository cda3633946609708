"""Page of the queue: runs that train one after the other, also while no window is open."""

import time
import tkinter as tk
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tkinter import ttk
from typing import Literal

from onetrainer.captioning.results import is_job
from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from onetrainer.queue.queue import Entry, Queue, other_owners, summary_of
from onetrainer.queue.serve import is_served, start_server
from onetrainer.queue.times import seconds_to_end
from onetrainer.run.history import RunSummary
from ui.context import Context, View
from ui.dialogs.dialogs import show_error
from ui.dialogs.sweep_dialog import ask_sweep
from ui.messages.run_standing import standing_text
from ui.widgets.flow import Flow
from ui.widgets.scroller import Scroller

_COLUMNS: tuple[tuple[str, str, int, Literal["w", "e"]], ...] = (
    ("place", "", 40, "e"),
    ("name", "Run", 220, "w"),
    ("state", "State", 170, "w"),
    ("steps", "Steps", 120, "e"),
    ("done", "Done", 150, "w"),
)
_POLL_MS = 1000
_LEAD = "Runs train one after the other, also after a failure, and while this window is closed."
_BUSY = {False: "Training", True: "Describing images"}
_CHOOSE = "Choose a run first."
_NOT_QUEUED = "The queue did not start this run."
_NOT_WAITING = "This run does not wait."
_RUNNING = "This run is training. Stop or pause it on the page Run."


class _Listed:
    """The queue as it was read: its file, each run's state, and when each is done."""

    def __init__(self, queue: Queue) -> None:
        self.state = queue.read()
        self.is_served = is_served(queue)
        self.runs = {entry.run: summary_of(entry) for entry in self.state.entries}
        self.ends = seconds_to_end(self.state)
        self.others = [each for each in other_owners(self.state) if each.run]


class QueuePage(View):
    """Table of queued runs, with what changes their order."""

    name = "queue"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._queue = Queue()
        self._entries: dict[str, Entry] = {}
        self._is_working = False
        self._timer = ""
        widgets, px = context.widgets, context.widgets.px
        scroller = Scroller(widgets, parent, fills=True)
        self.outer: tk.Widget = scroller.outer
        page = widgets.frame(scroller.inner, ground="window")
        page.grid(sticky="nsew")
        head, _, self._lead = widgets.heading(page, "Queue", _LEAD)
        head.pack(fill="x", padx=px(28), pady=(px(21), px(12)))
        card, inner = widgets.card(page)
        card.pack(fill="both", expand=True, padx=px(28), pady=(0, px(20)))
        top = widgets.frame(inner)
        top.pack(fill="x", pady=(0, px(10)))
        add = widgets.button(
            top, "Add these settings", context.act.enqueue, kind="primary", name="enqueue"
        )
        sweep = widgets.button(top, "Add for several values…", self._sweep, name="enqueue sweep")
        sweep.describe("Adds a run for each value of one setting")
        self._serve = widgets.button(top, "Start the queue", self._switch, name="serve queue")
        for button in (add, sweep):
            button.widget.pack(side="left", padx=(0, px(8)))
        self._serve.widget.pack(side="right")
        self.status = widgets.label(inner, "", style="Dim")
        self.status.pack(anchor="w", pady=(0, px(8)))
        self._tree = self._make_table(inner)
        line = widgets.frame(inner)
        line.pack(fill="x", pady=(px(10), 0), side="bottom", before=self._tree)
        self._buttons = {
            name: widgets.button(line, label, command, name=f"{name} queued")
            for name, label, command in (
                ("now", "Run now", self._run_now),
                ("up", "Up", partial(self._move, -1)),
                ("down", "Down", partial(self._move, 1)),
                ("again", "Add again", self._add_again),
                ("remove", "Remove", partial(self._change, Queue.remove)),
                ("show", "Show", self._show_run),
            )
        }
        clear = widgets.button(line, "Clear what is over", self._clear, kind="quiet", name="clear")
        flow = Flow(widgets, line)
        for button in (*self._buttons.values(), clear):
            flow.add(button.widget)
        self._buttons["now"].describe("A run that is training pauses, and goes on afterwards")
        self._enable()

    def _fit_columns(self, event: "tk.Event[tk.Misc]") -> None:
        """Leave out columns that the table has no room for, the last one first."""
        left, shown = event.width, []
        for name, _, width, _ in _COLUMNS:
            left -= self._context.widgets.px(width)
            if left >= 0:
                shown.append(name)
        self._tree.configure(displaycolumns=shown)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The name and the state of each run, as the table shows them."""
        cells = self._tree.set
        return [(cells(row, "name"), cells(row, "state")) for row in self._tree.get_children()]

    def refresh(self) -> None:
        """Read the queue now, and each second while the page is shown."""
        if not self._timer:
            self._tick()

    def _tick(self) -> None:
        self._timer = ""
        if not self.outer.winfo_exists():
            return
        if self.outer.winfo_ismapped() or not self._entries:
            self._read()
        if self.outer.winfo_ismapped():
            self._timer = self.outer.after(_POLL_MS, self._tick)

    def _read(self) -> None:
        self._context.widgets.jobs.run(partial(_Listed, self._queue), self._fill, self._failed)

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, UserError):
            raise error
        self.status.configure(text=str(error))

    def _make_table(self, parent: tk.Misc) -> ttk.Treeview:
        px = self._context.widgets.px
        names = [name for name, *_ in _COLUMNS]
        tree = ttk.Treeview(parent, columns=names, selectmode="browse", show="headings", height=8)
        for name, label, width, anchor in _COLUMNS:
            tree.heading(name, text=label, anchor=anchor)
            tree.column(name, width=px(width), anchor=anchor, stretch=name == "name")
        tree.pack(fill="both", expand=True)
        tree.bind("<Configure>", self._fit_columns)
        tree.bind("<<TreeviewSelect>>", lambda _: self._enable())
        tree.bind("<Double-Button-1>", lambda _: self._show_run())
        tree.bind("<Return>", lambda _: self._show_run())
        tree.bind("<Delete>", lambda _: self._change(Queue.remove))
        tree.bind("<Alt-Up>", lambda _: self._move(-1))
        tree.bind("<Alt-Down>", lambda _: self._move(1))
        self._context.widgets.name(tree, "queue table")
        self._context.widgets.on_wheel[tree] = lambda steps: tree.yview_scroll(steps, "units")
        return tree

    def _fill(self, listed: _Listed) -> None:
        tree, state = self._tree, listed.state
        if not tree.winfo_exists():
            return
        chosen = tree.selection()
        self._entries = {entry.run: entry for entry in state.entries}
        places = {entry.run: n for n, entry in enumerate(state.waiting, start=1)}
        rows = {
            other.run: ("", other.name, "Training, not of the queue", "", "")
            for other in listed.others
        } | {
            run: _row(entry, listed.runs[run], places.get(run), listed.ends.get(run))
            for run, entry in self._entries.items()
        }
        # Rows that stay keep their place on the screen and the keyboard.
        tree.delete(*(row for row in tree.get_children() if row not in rows))
        for index, (run, values) in enumerate(rows.items()):
            if tree.exists(run):
                tree.item(run, values=values)
                tree.move(run, "", index)
            else:
                tree.insert("", index, iid=run, values=values)
        tree.selection_set([row for row in chosen if row in rows])
        self.status.configure(text=_status_text(listed))
        is_working = listed.is_served and not state.is_held
        self._serve.set_text("Hold the queue" if is_working else "Start the queue")
        self._serve.enable("" if state.waiting or is_working else "No run waits.")
        self._is_working = is_working
        self._enable()

    def _chosen(self) -> Entry | None:
        chosen = self._tree.selection()
        return self._entries.get(chosen[0]) if chosen else None

    def _enable(self) -> None:
        entry, is_chosen = self._chosen(), bool(self._tree.selection())
        turn = entry.turn if entry else None
        missing = _NOT_QUEUED if is_chosen else _CHOOSE
        waiting = missing if turn is None else "" if turn == "waiting" else _NOT_WAITING
        reasons = {
            **dict.fromkeys(("now", "up", "down"), waiting),
            "again": missing if turn is None else "" if turn == "over" else "It has its turn yet.",
            "remove": missing if turn is None else _RUNNING if turn == "running" else "",
            "show": "" if is_chosen else _CHOOSE,
        }
        for name, button in self._buttons.items():
            button.enable(reasons[name])

    def _switch(self) -> None:
        """Start the queue, or hold it: the run that is training goes on."""
        is_held = self._is_working

        def switch() -> None:
            self._queue.hold(is_held)
            if not is_held:
                start_server(self._queue)

        self._do(switch)

    def _sweep(self) -> None:
        sweep = ask_sweep(self._context)
        if sweep:
            self._context.act.enqueue([sweep])

    def _change(self, change: Callable[[Queue, Path], None]) -> None:
        entry = self._chosen()
        if entry is not None:
            self._do(lambda: change(self._queue, Path(entry.run)))

    def _move(self, by: int) -> None:
        def move(queue: Queue, run: Path) -> None:
            runs = [each.run for each in queue.read().waiting]
            queue.move(run, runs.index(str(run)) + by if str(run) in runs else 0)

        entry = self._chosen()
        if entry is not None and entry.turn == "waiting":
            self._change(move)

    def _run_now(self) -> None:
        def run_now(queue: Queue, run: Path) -> None:
            queue.run_now(run)
            start_server(queue)

        self._change(run_now)

    def _add_again(self) -> None:
        self._change(lambda queue, run: queue.add([Entry(str(run)).folder]))

    def _show_run(self) -> None:
        for run in self._tree.selection():
            if is_job(Entry(run).folder):
                self._context.act.show_page("captioning")
            else:
                self._context.act.attach(Path(run))

    def _clear(self) -> None:
        self._do(self._queue.forget_past)

    def _do(self, work: Callable[[], object]) -> None:
        """Change the queue, for which other programs may have to be waited for, and read it."""

        def failed(error: Exception) -> None:
            if not isinstance(error, UserError):
                raise error
            show_error(self._context, error)
            self._read()

        self._context.widgets.jobs.run_in_order(work, lambda _: self._read(), failed)


def _row(
    entry: Entry, run: RunSummary | None, place: int | None, end: float | None
) -> tuple[str, ...]:
    if run is None:
        return "", entry.folder.name, "Its folder is gone", "", ""
    steps = f"{run.step:,} of {run.total_steps:,}" if run.total_steps else ""
    done = "" if end is None else time.strftime("%a %H:%M", time.localtime(time.time() + end))
    match entry.turn:
        case "waiting":
            state = f"Waits, paused at step {run.step:,}" if run.step else "Waits"
        case "running":
            state = "Pausing" if entry.passes else _BUSY[is_job(entry.folder)]
        case "over":
            state = f"Not started: {entry.error}" if entry.error else standing_text(run)
            done = time.strftime("%a %H:%M", time.localtime(run.changed))
    return str(place or ""), entry.folder.name, state, steps, done


def _status_text(listed: _Listed) -> str:
    state = listed.state
    waiting = counted(len(state.waiting), "run")
    if not state.entries:
        return "No run is queued yet. Adding one freezes its settings: the form is free again."
    if state.is_held:
        return f"Held: {waiting} waiting. A run that is training goes on to its end."
    if listed.others:
        return f"{waiting} waiting for {listed.others[0].name}, which the queue did not start."
    if not listed.is_served:
        return f"{waiting} waiting." if state.waiting else "Nothing waits."
    return f"{waiting} waiting." if state.waiting else "The last run is training."
