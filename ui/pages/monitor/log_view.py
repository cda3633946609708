"""The log of the displayed run: filtered, searched, copied, and followed while it grows."""

import tkinter as tk
from bisect import bisect_left, bisect_right
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.messages.formatting import counted
from ui.background.threads import Latest
from ui.context import Context
from ui.progress.log_lines import Filter, LogNews, LogReader, LogRows, find_in
from ui.theme.palette import Role
from ui.widgets.changes import on_change
from ui.widgets.clipboard import copy_text
from ui.widgets.line_list import LineList
from ui.widgets.placing import show, wrap_within

_POLL_MS = 400
_FILTERS: dict[str, Filter] = {
    "Libraries folded": "folded",
    "Everything": "all",
    "Warnings and errors": "warnings",
    "Errors": "errors",
}
_TONES: dict[str, Role] = {"error": "danger", "warning": "warning", "noise": "dim", "text": "text"}
_HINT = "Enter unfolds, Shift+arrows choose lines, Ctrl+C copies, / searches."


class LogView:
    """Lines of one of the run's logs; place `outer`."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets, px = context.widgets, context.widgets.px
        self._path: Path | None = None
        self._reader: LogReader | None = None
        self._log = LogRows()
        self._is_reading = False
        self._going = ("", 0)  # text, and the way to its next line, once they are found
        self._timer = ""
        self.outer, inner = widgets.card(parent)
        line = widgets.frame(inner)
        line.pack(fill="x", pady=(0, px(8)))
        self._file, self._files = self._make_choice(line, "log file", self._show_file)
        self._filter, self._filters = self._make_choice(line, "log filter", self._set_filter)
        self._filters.configure(values=list(_FILTERS))
        self._filter.set(next(iter(_FILTERS)))
        self._filters.pack(side="left", padx=(0, px(8)))
        self._query = tk.StringVar(self.outer)
        self._search = ttk.Entry(line, textvariable=self._query, width=18, font="OneTrainerBody")
        self._search.pack(side="left", padx=(0, px(6)))
        self._search.bind("<Return>", lambda _: self._find(1))
        self._search.bind("<Shift-Return>", lambda _: self._find(-1))
        widgets.name(self._search, "log search")
        self._next = widgets.button(line, "Find", partial(self._find, 1), name="log find")
        self._next.describe("Goes to the next line with this text (Enter; Shift+Enter: back)")
        self._next.widget.pack(side="left", padx=(0, px(8)))
        self._count = widgets.label(line, style="SmallDim")
        self._count.pack(side="left")
        on_change(self._query, self.outer, self._count_hits)
        foot = widgets.frame(inner)
        foot.pack(side="bottom", fill="x", pady=(px(8), 0))
        self._follow = widgets.switch(foot, self._follow_now, text="Follow")
        widgets.name(self._follow.widget, "log follow")
        self._follow.widget.pack(side="left", padx=(0, px(14)))
        copy = widgets.button(foot, "Copy", self._copy_all, name="log copy")
        copy.describe("Copies all lines that the filter shows").widget.pack(side="left")
        opened = widgets.button(foot, "Open file", self._open_file, name="log open")
        opened.widget.pack(side="left", padx=(px(6), px(14)))
        hint = widgets.label(inner, _HINT, style="SmallDim")
        hint.pack(side="bottom", anchor="w", pady=(px(6), 0))
        wrap_within(inner, hint)
        self.list = LineList(
            widgets,
            inner,
            name="log",
            text=lambda place: self._log.text(self._log.rows[place]),
            tone=lambda place: _TONES[self._log.kind(self._log.rows[place])],
            opened=self._toggle,
            copy=lambda first, last: self._copy(self._log.rows[first : last + 1]),
            moved=self._note_follow,
        )
        self.list.outer.pack(fill="both", expand=True)
        self.list.keyboard.bind("<slash>", lambda _: self._focus_search())
        self._hits: Latest[tuple[str, int], list[int]] = Latest(
            widgets.jobs, self._search_lines, self._count_hits
        )
        self._follow.show(True)
        self.outer.bind("<Map>", lambda _: self._read())

    def _make_choice(
        self, parent: tk.Misc, name: str, chosen: object
    ) -> tuple[tk.StringVar, ttk.Combobox]:
        variable = tk.StringVar(self.outer)
        box = ttk.Combobox(parent, textvariable=variable, state="readonly", width=18)
        box.configure(font="OneTrainerBody")
        box.bind("<<ComboboxSelected>>", lambda _: chosen())  # type: ignore[operator] # a method
        self._context.widgets.name(box, name)
        return variable, box

    @property
    def rows(self) -> list[str]:
        """All rows that can be scrolled to."""
        return [self._log.text(row) for row in self._log.rows]

    @property
    def count_text(self) -> str:
        """What is said of the search."""
        return self._count.text

    def refresh(self) -> None:
        """Show the log of the displayed run, and go on reading it while it is visible."""
        folder = self._context.session.folder
        if folder is None:
            return
        logs = sorted(
            [*folder.path.glob("worker*.log"), *folder.path.glob("worker.log.1")],
            key=lambda path: (path != folder.log, path.name),
        )
        names = [path.name for path in logs] or [folder.log.name]
        if names != list(self._files.cget("values")):
            self._files.configure(values=names)
            show(self._files, len(names) > 1, side="left", before=self._filters)
        if self._path is None or self._path.parent != folder.path:
            self._file.set(folder.log.name)
            self._show_file()
        self._read()

    def take_focus(self) -> None:
        """Give the keyboard to the lines."""
        self.list.keyboard.focus_set()

    def leave(self) -> bool:
        """Clear the search; return whether there was one."""
        if not self._query.get():
            return False
        self._query.set("")
        self.take_focus()
        return True

    def _show_file(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._path = folder.path / self._file.get()
            self._reader = LogReader(self._path)
            self._log.clear()
            self._show()
            self._read()

    def _read(self) -> None:
        """Read what is new in a thread, and look again in a moment."""
        if self._timer:
            self.outer.after_cancel(self._timer)
            self._timer = ""
        reader = self._reader
        if reader is None or self._is_reading or not self.outer.winfo_ismapped():
            return
        self._is_reading = True
        self._context.widgets.jobs.run(reader.read, partial(self._take, reader))

    def _take(self, reader: LogReader, news: LogNews) -> None:
        self._is_reading = False
        if reader is not self._reader:
            self._read()
            return
        if news.restarted:
            self._log.clear()
        self._log.extend(news.lines, news.kinds)
        if news.restarted or news.lines:
            self._show()
            self._count_hits()
        if news.is_complete:
            self._timer = self.outer.after(_POLL_MS, self._read)
        else:
            self._read()

    def _show(self) -> None:
        self.list.show(len(self._log.rows), to_end=self._follow.is_on)

    def _set_filter(self) -> None:
        line = self._line_at_cursor()
        self._log.set_filter(_FILTERS[self._filter.get()])
        self._show()
        if not self._follow.is_on and self._log.rows:
            self.list.go_to(self._log.row_of(line))
        self._count_hits()

    def _line_at_cursor(self) -> int:
        rows = self._log.rows
        row = rows[min(self.list.cursor, len(rows) - 1)] if rows else 0
        return row if row >= 0 else ~row

    def _toggle(self, place: int) -> None:
        if self._log.toggle(self._log.rows[place]):
            self.list.show(len(self._log.rows), to_end=False)

    def _follow_now(self) -> None:
        if self._follow.is_on:
            self._show()

    def _note_follow(self) -> None:
        """Follow the end while it is seen: who scrolls up wants to read."""
        if self._follow.is_on != self.list.is_at_end:
            self._follow.show(self.list.is_at_end)

    def _search_lines(self, key: tuple[str, int]) -> list[int]:
        query, count = key
        return find_in(self._log.lines[:count], query)

    def _count_hits(self) -> None:
        query = self._query.get()
        key = (query, len(self._log.lines)) if query else None
        hits = self._hits.get(key)
        if not query:
            self._count.say("")
        elif hits is not None:
            self._count.say(counted(len(hits), "line") if hits else "Not found")
            text, by = self._going
            if by and text == query:
                self._find(by)

    def _find(self, by: int) -> str:
        """Go to the next line that contains the text, from the cursor on, and around the end."""
        query = self._query.get()
        hits = self._hits.get((query, len(self._log.lines))) if query else None
        self._going = (query, by if query and hits is None else 0)
        if hits:
            at = self._line_at_cursor()
            index = bisect_right(hits, at) if by > 0 else bisect_left(hits, at) - 1
            index %= len(hits)
            self._follow.show(False)
            self.list.go_to(self._log.row_of(hits[index]))
            self.list.show(len(self._log.rows), to_end=False)
            self._count.say(f"{index + 1:,} of {counted(len(hits), 'line')}")
        return "break"

    def _focus_search(self) -> str:
        self._search.focus_set()
        self._search.select_range(0, "end")
        return "break"

    def _copy_all(self) -> None:
        self._copy(self._log.rows)

    def _copy(self, rows: list[int]) -> None:
        text = self._log.whole(rows)
        copy_text(self._context.root, text)
        lines = text.count("\n") + bool(text)
        self._context.act.show_message(f"Copied {counted(lines, 'line')} of the log.")

    def _open_file(self) -> None:
        if self._path is not None:
            self._context.act.open_path(self._path)
