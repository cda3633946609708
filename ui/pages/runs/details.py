"""Card below the table of runs: what a person has written about the selected one."""

import tkinter as tk
from collections.abc import Callable, Mapping, Sequence
from tkinter import ttk
from typing import Any

from onetrainer.run.own_notes import split_tags
from ui.messages.run_rows import RunRow
from ui.widgets.placing import give_focus, show_in_grid
from ui.widgets.widgets import Widgets

_NOTES_LINES = 3
_TEXT_WIDTH = 460  # that of the buttons below it
_CHOOSE = "Choose a run first."


class RunDetails:
    """Notes, tags and the buttons that change the list; place `outer`.

    Args:
        actions: What the buttons do: "star", "rename", "delete", "folder", "report".
        change: Saves changes of a person's notes on a run, as those of `OwnNotes`.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        actions: Mapping[str, Callable[[], object]],
        change: Callable[[RunRow, dict[str, Any]], None],
    ) -> None:
        px = widgets.px
        self._change = change
        self._row: RunRow | None = None
        self._saved: tuple[str, tuple[str, ...]] = ("", ())
        self.outer, box = widgets.card(parent)
        box.grid_columnconfigure(1, weight=1)  # the notes take what the buttons leave
        left = widgets.frame(box)
        left.grid(row=0, column=0, sticky="nsew", padx=(0, px(20)))
        self._name = widgets.label(left, style="Heading", wrap=_TEXT_WIDTH)
        self._about = widgets.label(left, style="SmallDim", wrap=_TEXT_WIDTH)
        self._name.pack(anchor="w")
        self._about.pack(anchor="w", pady=(px(2), px(8)))
        line = widgets.frame(left)
        line.pack(side="bottom", anchor="w")
        self._buttons = {
            name: widgets.button(line, label, actions[name], name=f"{name} run")
            for name, label in (
                ("star", "Star"),
                ("rename", "Rename…"),
                ("folder", "Open folder"),
                ("report", "Make report"),
                ("delete", "Delete…"),
            )
        }
        for button in self._buttons.values():
            button.widget.pack(side="left", padx=(0, px(6)))
        self._own = widgets.frame(box)
        self._own.grid(row=0, column=1, sticky="nsew")
        self._own.grid_columnconfigure(1, weight=1)
        self._tags = ttk.Entry(self._own, font="OneTrainerBody")
        self._notes = widgets.text_box(self._own, width=20, height=_NOTES_LINES)
        for row, (text, field) in enumerate((("Tags", self._tags), ("Notes", self._notes))):
            label = widgets.label(self._own, text, style="SmallDim")
            label.grid(row=row, column=0, sticky="nw", pady=px(5), padx=(0, px(10)))
            field.grid(row=row, column=1, sticky="ew", pady=px(2))
            field.bind("<FocusOut>", lambda _: self.commit())
        self._tags.bind("<Return>", lambda _: self.commit())
        self._notes.bind("<Tab>", lambda _: give_focus(self._notes.tk_focusNext()))
        hint = widgets.label(self._own, "Commas divide tags.", style="SmallDim")
        hint.grid(row=2, column=1, sticky="w")
        widgets.name(self._tags, "run tags")
        widgets.name(self._notes, "run notes")
        self.show([])

    def show(self, rows: Sequence[RunRow]) -> None:
        """Show the selected rows."""
        row = rows[0] if len(rows) == 1 else None
        if (row and row.path) != (self._row and self._row.path):
            self.commit()
        is_typing = row is not None and self._row is not None and row.path == self._row.path
        self._row = row
        names = "No run selected" if not rows else f"{len(rows)} runs selected"
        self._name.say(row.record.name if row else names)
        self._about.say(_about(row) if row else "Ctrl and Shift with a click select several.")
        is_starred = bool(rows) and all(each.record.notes.is_starred for each in rows)
        self._buttons["star"].set_text("Remove star" if is_starred else "Star")
        one = "" if row else ("Choose one run alone." if rows else _CHOOSE)
        for name, button in self._buttons.items():
            several = name in ("star", "delete")
            button.enable(("" if rows else _CHOOSE) if several else one)
        show_in_grid(self._own, row is not None)
        if row is not None and not is_typing:
            notes = row.record.notes
            self._saved = notes.notes, notes.tags
            self._tags.delete(0, "end")
            self._tags.insert(0, ", ".join(notes.tags))
            self._notes.delete("1.0", "end")
            self._notes.insert("1.0", notes.notes)

    def commit(self) -> None:
        """Save notes and tags that were changed."""
        now = self._notes.get("1.0", "end").strip(), split_tags(self._tags.get())
        if self._row is not None and now != self._saved:
            self._saved = now
            self._change(self._row, {"notes": now[0], "tags": now[1]})


def _about(row: RunRow) -> str:
    lines = [str(row.path)]
    if row.record.best is not None:
        best = row.record.best
        lines.append(f"Lowest validation loss {best.loss:.4g} at step {best.step:,}")
    if row.before:
        lines.append(f"Compared with {row.before}: {row.difference or 'no setting differs'}")
    return "\n".join(lines)
