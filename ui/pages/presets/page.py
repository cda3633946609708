"""Page of presets: find one, see what it would change, and use it."""

import tkinter as tk
from dataclasses import replace
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.errors import UserError
from onetrainer.json_file import Document
from ui.actions.own_presets import delete_preset, rename_preset, write_notes
from ui.background.preset_forecasts import PresetForecasts
from ui.background.threads import OneAtATime
from ui.context import Context, View
from ui.messages.memory import failure_text
from ui.model.preset_changes import SettingChange, changes_between
from ui.model.preset_fields import open_config
from ui.model.preset_rows import ORDERS, Order, PresetRow, list_rows
from ui.model.run_parents import run_parents
from ui.pages.presets.details import PresetDetails, changes_title
from ui.pages.presets.table import PresetTable
from ui.widgets.changes import on_change
from ui.widgets.placing import give_focus, place_two
from ui.widgets.scroller import Scroller

_LEAD = "Up and Down select  ·  type to search  ·  Enter uses the preset  ·  Esc leaves"
# A key that is held must not compare each preset that it passes.
_COMPARE_AFTER_MS = 60
_WIDE = 900
_MOST_FILES = 8
# Control and Alt, in Tk's numbers of an event.
_MODIFIERS = 0x4 | 0x8


class PresetsPage(View):
    """Table of presets, and what the selected one would change."""

    name = "presets"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self._rows: list[PresetRow] = []
        self._files: list[Path] = []
        self._held: PresetRow | None = None
        self._is_listed = False
        self._mode = ""
        self._timer = ""
        self._compared: tuple[object, ...] = ()
        self._state: tuple[object, ...] = ()
        self._forecasts = PresetForecasts(widgets.jobs, self._show)
        self._lists = OneAtATime(widgets.jobs, self._listed)
        self._select: Path | None = None  # once they are listed
        self._before: Path | None = None  # was selected when that was asked for
        self.outer: tk.Widget = widgets.frame(parent, ground="window")
        self._search, self._order = tk.StringVar(self.outer), tk.StringVar(self.outer, ORDERS[0])
        self._entry = self._make_head()
        scroller = Scroller(widgets, self.outer, fills=True)
        scroller.outer.pack(fill="both", expand=True)
        self._box = widgets.frame(scroller.inner, ground="window")
        self._box.grid(sticky="nsew", padx=widgets.px(28), pady=(0, widgets.px(20)))
        self._card, inner = widgets.card(self._box)
        self.table = PresetTable(widgets, inner, self._choose, self._apply, self._set_order)
        self.table.outer.pack(fill="both", expand=True)
        self.table.tree.bind("<Key>", self._type)
        self.details = PresetDetails(
            widgets,
            self._box,
            {
                "apply": self._apply,
                "compare": self._hold,
                "forecast": self._make_forecast,
                "rename": self._rename,
                "delete": self._delete,
            },
            self._write_notes,
        )
        self.table.tree.bind("<Delete>", lambda _: self._delete())
        self._box.bind("<Configure>", self._arrange)
        on_change(self._search, self.outer, self._show)

    def refresh(self) -> None:
        """Compare with the changed settings, and follow the theme."""
        theme, draft = self._context.widgets.theme, self._context.draft
        if theme.mode != self._mode:
            self._mode = theme.mode
            self.table.repaint()
            self.details.repaint()
        state = (draft.origin, draft.load_count, id(draft.document))
        if state != self._state:
            self._state = state
            self._show()

    def take_focus(self) -> None:
        """List the presets anew, since files come and go, and begin with the search."""
        self._search.set("")
        self._entry.focus_set()
        if not self._context.session.is_running:  # which would be measured as well
            self._forecasts.measure()
        self._list(self._context.draft.origin.path)

    def commit(self) -> None:
        """Save notes that were changed."""
        self.details.commit()

    def _make_head(self) -> ttk.Entry:
        widgets, px = self._context.widgets, self._context.widgets.px
        head, _, _ = widgets.heading(self.outer, "Presets", _LEAD)
        head.pack(fill="x", padx=px(28), pady=(px(21), px(10)))
        line = widgets.frame(self.outer, ground="window")
        line.pack(fill="x", padx=px(28), pady=(0, px(10)))
        entry = ttk.Entry(line, textvariable=self._search, font="OneTrainerBody", width=28)
        widgets.name(entry, "find preset")
        for key, by in (("<Down>", 1), ("<Up>", -1), ("<Next>", 8), ("<Prior>", -8)):
            entry.bind(key, partial(self._move, by))
        entry.bind("<Return>", lambda _: self._apply())
        order = ttk.Combobox(
            line, textvariable=self._order, values=ORDERS, state="readonly", width=18
        )
        order.configure(font="OneTrainerBody")
        order.bind("<<ComboboxSelected>>", lambda _: self._show())
        widgets.name(order, "preset order")
        open_file = widgets.button(
            line, "Open a file…", self._open_file, name="open preset file", ground="window"
        )
        open_file.describe("A config from somebody else, or config.json in the folder of a run")
        save = widgets.button(
            line, "Save as…", self._save_as, name="save preset as", ground="window"
        )
        save.describe("Saves your settings as a preset of your own (Ctrl+Shift+S)")
        # The search box gives way where there is little room.
        save.widget.pack(side="right")
        open_file.widget.pack(side="right", padx=px(8))
        entry.pack(side="left")
        order.pack(side="left", padx=px(8))
        return entry

    def _arrange(self, event: "tk.Event[ttk.Frame]") -> None:
        """Put the details next to the table, or below it in a narrow window."""
        px = self._context.widgets.px
        is_wide, cards = event.width >= px(_WIDE), (self._card, self.details.outer)
        place_two(*cards, is_beside=is_wide, widths=(5, 3), gap=px(14))
        self.details.arrange(is_wide=not is_wide)

    def _list(self, select: Path | None) -> None:
        """Read the presets in a thread, and select one when they are known.

        A row that a person selects meanwhile stays selected.
        """
        self._select, self._before = select, self._selected
        self._read()

    def _read(self) -> None:
        folder, demo = self._context.draft.value("output.folder"), self._context.demo
        current = self._context.draft.origin.path
        files = [*self._files, *([current] if current else [])]
        self._lists.ask(lambda: list_rows(demo, run_parents(folder), files))

    def _listed(self, rows: list[PresetRow]) -> None:
        is_first, self._is_listed = not self._is_listed, True
        self._rows = rows
        is_wanted = self._select is not None and self._before == self._selected
        self._show()
        if is_wanted or is_first:
            self.table.select(self._select)

    @property
    def _selected(self) -> Path | None:
        return self.table.chosen.path if self.table.chosen else None

    def _show(self) -> None:
        words = self._search.get().lower().split()
        order = next(order for order in ORDERS if order == self._order.get())
        rows = [row for row in self._rows if row.matches(words)]
        current = self._context.draft.origin.path
        self.table.show(
            rows, order, self._forecasts.known, current, is_timing=self._forecasts.is_measuring
        )
        self._choose()

    def _move(self, by: int, _: object) -> str:
        return self.table.move(by)

    def _set_order(self, order: Order) -> None:
        self._order.set(order)
        self._show()

    def _choose(self) -> None:
        self.details.show(self.table.chosen, self._forecasts, is_listed=self._is_listed)
        if self._timer:
            self.outer.after_cancel(self._timer)
        self._timer = self.outer.after(_COMPARE_AFTER_MS, self._compare)

    def _compare(self) -> None:
        """List what the selected preset would change, or how it differs from the held one."""
        self._timer = ""
        row, held, draft = self.table.chosen, self._held, self._context.draft
        times = [_changed_at(each) for each in (row, held)]
        compared = (row, held, times, draft.document, draft.base, draft.origin)
        if compared == self._compared:
            return  # as when the page is visited again
        self._compared = compared
        changes: list[SettingChange] = []
        title = ""
        if row is not None and not row.problem and row.digest:
            try:
                new = self._document(row)
                old = draft.document if held is None else self._document(held)
            except UserError as error:
                title = failure_text(error)
            else:
                own = draft.changed() if held is None else ()
                changes = changes_between(old, new, own)
                title = changes_title(changes, held.name if held else "")
        elif row is not None and not row.problem:
            title = "It is created on this computer when you use it."
        self.details.show_changes(title, changes, is_compared=held is not None)

    def _document(self, row: PresetRow) -> Document:
        document, _ = open_config(row.path, row.preset, self._context.draft.value)
        return document

    def _apply(self) -> str:
        row, act = self.table.chosen, self._context.act
        if row is not None and not row.problem:
            if row.kind == "demo" and not row.digest:
                act.load_demo()
            else:
                act.load_file(row.path, row.preset if row.kind != "run" else None)
        return "break"

    def _hold(self) -> None:
        self._held = self.table.chosen if self._held is None else None
        self._compare()

    def _make_forecast(self) -> None:
        row = self.table.chosen
        if row is None:
            return
        if row.digest == self._forecasts.digest:
            self._forecasts.stop()
            self._show()
        else:
            self._forecasts.start(row.path, row.digest)

    def _open_file(self) -> None:
        """List a file and select it, so that it can be compared and used."""
        current = self._context.draft.origin.path
        chosen = self._context.act.choose_path("preset", str(current) if current else "")
        if chosen:
            path = Path(chosen)
            self._files = [path, *(other for other in self._files if other != path)][:_MOST_FILES]
            self._search.set("")
            self._list(path)
            self.table.tree.focus_set()

    def _rename(self) -> None:
        row = self._own_row()
        if row is not None:
            self._list(rename_preset(self._context, row.preset))

    def _delete(self) -> None:
        row = self._own_row()
        if row is None:
            return
        restored = partial(self._list, row.path)
        if delete_preset(self._context, row.preset, restored):
            self.table.move(1)
            self._list(self._selected)

    def _own_row(self) -> PresetRow | None:
        """Return the selected preset of the user, whose notes are saved."""
        self.commit()
        row = self.table.chosen
        return row if row is not None and row.kind == "yours" else None

    def _write_notes(self, row: PresetRow, notes: str) -> None:
        preset = write_notes(self._context, row.preset, notes)
        self._rows = [
            replace(each, preset=preset) if each.path == row.path else each for each in self._rows
        ]
        if self._lists.is_busy:  # with what was there before
            self._read()
        self._show()

    def _type(self, event: "tk.Event[ttk.Treeview]") -> str | None:
        """Go on in the search box with what is typed in the table."""
        if not event.char.strip() or not event.char.isprintable() or int(event.state) & _MODIFIERS:
            return None
        self._entry.insert("end", event.char)
        return give_focus(self._entry)

    def _save_as(self) -> None:
        if self._context.act.save_preset_as():
            self._list(self._context.draft.origin.path)


def _changed_at(row: PresetRow | None) -> float:
    """Return when the file of a row was last changed; 0 if there is none."""
    try:
        return row.path.stat().st_mtime if row is not None else 0.0
    except OSError:
        return 0.0
