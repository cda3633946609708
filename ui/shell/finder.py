"""Search box with a list of matching settings."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from tkinter import ttk
from typing import TYPE_CHECKING

from ui.messages.line_breaks import shorten_at_word
from ui.model.draft import Draft
from ui.model.form_fields import PagePlan, display_text
from ui.widgets.changes import on_change
from ui.widgets.widgets import Widgets, focused

if TYPE_CHECKING:
    from ui.model.search import Hit

_WIDTH = 540
_MAX_VALUE_LENGTH = 40
_HINT = "Find   Ctrl+F"


class Finder:
    """Search box: Return or a click jumps to a setting, arrow keys select, Escape closes."""

    def __init__(
        self,
        widgets: Widgets,
        root: tk.Tk,
        parent: tk.Misc,
        plans: tuple[PagePlan, ...],
        draft: Draft,
        jump: Callable[[str], None],
    ) -> None:
        self._widgets = widgets
        self._root = root
        self._plans = plans
        self._draft = draft
        self._jump = jump
        self._hits: list[Hit] = []
        self._text = tk.StringVar(root)
        self.entry = ttk.Entry(parent, textvariable=self._text, font="OneTrainerBody", width=24)
        on_change(self._text, self.entry, self._search)
        self._hint = tk.Label(self.entry, text=_HINT, font="OneTrainerBody", borderwidth=0)
        widgets.theme.paint(self._hint, bg="field", fg="dim")
        self._show_hint()
        self._hint.bind("<Button-1>", lambda _: self.entry.focus_set())
        self._list = tk.Listbox(
            root,
            font="OneTrainerBody",
            activestyle="none",
            borderwidth=0,
            highlightthickness=1,
            exportselection=False,
            takefocus=0,
        )
        widgets.theme.paint(
            self._list,
            bg="field",
            fg="text",
            selectbackground="fill",
            selectforeground="on_fill",
            highlightbackground="border",
        )
        widgets.name(self.entry, "search")
        widgets.name(self._list, "search hits")
        for key, by in (("<Down>", 1), ("<Up>", -1)):
            self.entry.bind(key, partial(self._move, by))
        self.entry.bind("<Return>", lambda _: self._choose())
        self.entry.bind("<Escape>", lambda _: self._escape())
        self.entry.bind("<FocusIn>", lambda _: self._hint.place_forget())
        # A click on the list takes the focus first; the list must still exist then.
        self.entry.bind("<FocusOut>", lambda _: root.after(200, self._focus_left))
        self._list.bind("<ButtonRelease-1>", lambda _: self._choose())

    def open(self) -> None:
        """Focus the box and select its text."""
        self.entry.focus_set()
        self.entry.selection_range(0, "end")
        self._search()

    def close(self) -> None:
        """Close the list and clear the text."""
        self._text.set("")
        self._list.place_forget()
        self._root.focus_set()
        self._show_hint()

    def _escape(self) -> str:
        self.close()
        return "break"  # it closes the search alone

    def _show_hint(self) -> None:
        self._hint.place(x=self._widgets.px(9), rely=0.5, anchor="w")

    def _focus_left(self) -> None:
        if self.entry.winfo_exists() and focused(self._root) is not self.entry:
            self._list.place_forget()
            if not self._text.get():
                self._show_hint()

    def _search(self) -> None:
        # Imported late to keep the start of the window fast.
        from ui.model.search import find_settings

        self._hits = find_settings(self._text.get(), self._plans, self._draft.variants)
        self._list.delete(0, "end")
        if not self._text.get().strip():
            self._list.place_forget()
            return
        lines = [self._line(hit) for hit in self._hits] or ["  No setting found"]
        for line in lines:
            self._list.insert("end", line)
        self._list.configure(height=len(lines))
        self._list.selection_set(0)
        width = min(self._widgets.px(_WIDTH), self._root.winfo_width())
        left = self.entry.winfo_rootx() - self._root.winfo_rootx()
        left = max(0, min(left, self._root.winfo_width() - width - self._widgets.px(12)))
        top = self.entry.winfo_rooty() - self._root.winfo_rooty() + self.entry.winfo_height() + 2
        self._list.place(x=left, y=top, width=width)
        self._list.lift()

    def _line(self, hit: "Hit") -> str:
        setting = hit.setting
        if hit.only_with:
            return f"  {setting.ui.label}   —   {hit.place}: {hit.only_with}"
        value = (
            display_text(self._draft.value(setting.path), setting) if setting.kind != "list" else ""
        )
        if hit.choice and hit.choice != value:
            value = f"{value}, or {hit.choice}"
        value = shorten_at_word(value, _MAX_VALUE_LENGTH)
        return f"  {setting.ui.label}   {value}   —   {hit.place}"

    def _chosen(self) -> int:
        places = [place for place in range(len(self._hits)) if self._list.selection_includes(place)]
        return places[0] if places else 0

    def _move(self, by: int, _: "tk.Event[tk.Misc]") -> str:
        target = min(max(self._chosen() + by, 0), max(0, len(self._hits) - 1))
        self._list.selection_clear(0, "end")
        self._list.selection_set(target)
        self._list.see(target)
        return "break"

    def _choose(self) -> None:
        place = self._chosen()
        if place < len(self._hits):
            path = self._hits[place].target
            self.close()
            self._jump(path)
