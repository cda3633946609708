"""Page of the queue: runs that train one after the other, also while no window is open."""

import threading
import tkinter as tk
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from pathlib import Path
from tkinter import ttk
from typing import Literal

from onetrainer.errors import UserError
from onetrainer.messages.queue_rows import EMPTY, queue_rows, standing_of_queue
from onetrainer.queue.forecast import forecast_missing
from onetrainer.queue.freeze import change_device, clone
from onetrainer.queue.listing import Listing
from onetrainer.queue.queue import Entry, Queue
from onetrainer.queue.serve import start_server
from onetrainer.run.job_folders import is_job
from onetrainer.run.run_folder import RunFolder
from ui.background.threads import OneAtATime
from ui.context import Context, View
from ui.dialogs.device_dialog import ask_device
from ui.dialogs.dialogs import report_failure
from ui.dialogs.sweep_dialog import ask_sweep
from ui.widgets.flow import Flow
from ui.widgets.scroller import Scroller

_COLUMNS: tuple[tuple[str, str, int, Literal["w", "e"]], ...] = (
    ("number", "", 40, "e"),
    ("name", "Run", 220, "w"),
    ("state", "State", 210, "w"),
    ("done", "Done", 100, "e"),
    ("device", "Device", 110, "w"),
    ("steps", "Steps", 130, "e"),
)
_POLL_MS = 1000
_LEAD = "Runs train one after the other, also after a failure, and while this window is closed."
_CHOOSE = "Choose a run first."
_NOT_QUEUED = "This is not of the queue."
_NOT_WAITING = "This run does not wait."
_RUNNING = "This run is training. Stop or pause it on the page Run."
_JOB = "A job describes each image once."
_GONE = "Its folder is gone."


class QueuePage(View):
    """Table of queued runs, with what changes their order."""

    name = "queue"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._queue = Queue()
        self._entries: dict[str, Entry] = {}
        self._runs_here: set[str] = set()  # rows that are runs
        self._forecast: set[str] = set()  # runs whose forecast was tried
        self._is_working = self._is_forecasting = False
        self._is_closed = threading.Event()
        context.widgets.jobs.on_close.append(self._is_closed.set)
        self._reads = OneAtATime(context.widgets.jobs, self._fill, self._failed)
        self._timer = ""
        widgets, px = context.widgets, context.widgets.px
        scroller = Scroller(widgets, parent, fills=True)
        self.outer: tk.Widget = scroller.outer
        # It is refreshed as it is opened, which is before Tk has put it on the screen.
        self.outer.bind("<Map>", lambda _: self.refresh(), add="+")
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
                ("clone", "Clone", self._clone),
                ("device", "Device…", self._choose_device),
                ("again", "Add again", self._add_again),
                ("remove", "Remove", self._remove),
                ("show", "Show", self._show_run),
            )
        }
        clear = widgets.button(line, "Clear what is over", self._clear, kind="quiet", name="clear")
        flow = Flow(widgets, line)
        for button in (*self._buttons.values(), clear):
            flow.add(button.widget)
        self._buttons["now"].describe("A run that is training pauses, and goes on afterwards")
        self._buttons["clone"].describe("Adds a new run with the same settings behind it")
        self._buttons["device"].describe("Lets this run train on another GPU")
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

    @property
    def devices(self) -> list[str]:
        """The device of each row."""
        return [self._tree.set(row, "device") for row in self._tree.get_children()]

    def refresh(self) -> None:
        """Read the queue now, and each second while the page is shown."""
        if not self._timer:
            self._tick()

    def _tick(self) -> None:
        self._timer = ""
        if self.outer.winfo_exists() and self.outer.winfo_ismapped():
            if not self._reads.is_busy:
                self._read()
            self._timer = self.outer.after(_POLL_MS, self._tick)

    def _read(self) -> None:
        self._reads.ask(partial(Listing, self._queue))

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
        tree.bind("<Delete>", lambda _: self._remove())
        tree.bind("<Alt-Up>", lambda _: self._move(-1))
        tree.bind("<Alt-Down>", lambda _: self._move(1))
        self._context.widgets.name(tree, "queue table")
        self._context.widgets.scroll_by_wheel(tree)
        return tree

    def _fill(self, listing: Listing) -> None:
        tree, state = self._tree, listing.state
        if not tree.winfo_exists():
            return
        chosen = tree.selection()
        self._entries = {entry.run: entry for entry in state.entries}
        listed = queue_rows(listing)
        rows = {
            row.key: (row.number, row.name, row.state, row.done, row.device, row.steps)
            for row in listed
        }
        self._runs_here = {*self._entries, *(each.owner.run for each in listing.others)}
        # Rows that stay keep their place on the screen and the keyboard.
        tree.delete(*(row for row in tree.get_children() if row not in rows))
        for index, (run, values) in enumerate(rows.items()):
            if tree.exists(run):
                tree.item(run, values=values)
                tree.move(run, "", index)
            else:
                tree.insert("", index, iid=run, values=values)
        tree.selection_set([row for row in chosen if row in rows])
        self.status.configure(text=_status_text(listing))
        is_working = listing.is_served and not state.is_held
        self._serve.set_text("Hold the queue" if is_working else "Start the queue")
        self._serve.enable("" if state.waiting or is_working else "No run waits.")
        self._is_working = is_working
        self._enable()
        self._forecast_missing()

    def _forecast_missing(self) -> None:
        """Forecast in a thread what waits without a forecast, such as each value of a sweep."""
        missing = {e.run for e in self._entries.values() if e.turn == "waiting" and not e.seconds}
        if self._is_forecasting or missing <= self._forecast:
            return
        self._is_forecasting = True

        def done(_: object) -> None:
            self._is_forecasting = False

        def failed(error: Exception) -> None:
            self._is_forecasting = False
            self._failed(error)

        found = forecast_missing(self._queue, self._forecast)
        wanted = takewhile(lambda _: not self._is_closed.is_set(), found)
        self._context.widgets.jobs.run(lambda: list(wanted), done, failed)

    def _chosen(self) -> Entry | None:
        chosen = self._tree.selection()
        return self._entries.get(chosen[0]) if chosen else None

    def _enable(self) -> None:
        entry, chosen = self._chosen(), self._tree.selection()
        turn = entry.turn if entry else None
        missing = _NOT_QUEUED if chosen else _CHOOSE
        waiting = missing if turn is None else "" if turn == "waiting" else _NOT_WAITING
        gone = _GONE if entry and not entry.folder.config.is_file() else ""
        reasons = {
            **dict.fromkeys(("now", "up", "down"), waiting),
            "clone": missing if entry is None else _JOB if entry.job else gone,
            "device": waiting or gone,
            "again": missing if turn is None else "" if turn == "over" else "It has its turn yet.",
            "remove": missing if turn is None else _RUNNING if turn == "running" else "",
            "show": "" if {*chosen} & self._runs_here else missing,
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

    def _change(self, change: Callable[[Queue, Path], object]) -> None:
        entry = self._chosen()
        if entry is not None:
            self._do(lambda: change(self._queue, Path(entry.run)))

    def _remove(self) -> None:
        """Take the chosen run out, and choose the one that takes its place."""
        rows, entry = [*self._tree.get_children()], self._chosen()
        self._change(Queue.remove)
        if entry is not None and entry.turn != "running" and rows[1:]:
            at = rows.index(entry.run)
            rows.remove(entry.run)
            self._tree.selection_set(rows[min(at, len(rows) - 1)])
            self._tree.focus(rows[min(at, len(rows) - 1)])

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

    def _clone(self) -> None:
        self._change(clone)

    def _choose_device(self) -> None:
        entry = self._chosen()
        device = ask_device(self._context, entry) if entry else ""
        if entry is not None and device and device != entry.device:
            self._forecast.discard(entry.run)
            self._do(lambda: change_device(self._queue, Path(entry.run), device))

    def _add_again(self) -> None:
        self._change(lambda queue, run: queue.add([Entry(str(run)).folder]))

    def _show_run(self) -> None:
        for run in self._tree.selection():
            entry = self._entries.get(run)
            if (entry is not None and entry.job) or is_job(RunFolder(Path(run))):
                self._context.act.show_page("captioning")
            elif run in self._runs_here:
                self._context.act.attach(Path(run))

    def _clear(self) -> None:
        self._do(self._queue.forget_past)

    def _do(self, work: Callable[[], object]) -> None:
        """Change the queue, for which other programs may have to be waited for, and read it."""

        def failed(error: Exception) -> None:
            report_failure(self._context, error)
            self._read()

        self._context.widgets.jobs.run_in_order(work, lambda _: self._read(), failed)


def _status_text(listing: Listing) -> str:
    text = standing_of_queue(listing)
    if text == EMPTY:
        text += " Adding one freezes its settings: the form is free again."
    elif listing.state.waiting and not (listing.is_served or listing.state.is_held):
        text += " Press Start the queue."
    return text
