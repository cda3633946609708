"""The window's own file dialog, for Linux desktops that have none to lend."""

import os
import tkinter as tk
from collections.abc import Sequence
from pathlib import Path
from tkinter import ttk

from onetrainer.errors import UserError
from onetrainer.messages.formatting import format_size
from onetrainer.presets.find import expanded
from ui.context import Context
from ui.dialogs.desktop_dialog import Patterns
from ui.dialogs.dialogs import Dialog
from ui.messages.line_breaks import shorten
from ui.model.folder_entries import EntryFacts, FolderEntry, describe_entry, list_entries
from ui.widgets.changes import on_change
from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets

_PLACES_WIDTH, _SIZE_WIDTH, _FACTS_WIDTH = 170, 90, 190
_NAME_WIDTHS, _ROWS, _CELL_GAP = (100, 330), (4, 12), 12
# What else a dialog is wide and high, with the frame of its window.
_AROUND = (130, 330)
_UP = ".."
_MOST_ROWS = 2000  # of which Tk makes a list in some 80 ms, at every letter that is typed


def browse(context: Context, title: str, start: Path, patterns: Patterns | None) -> str:
    """Let the user choose a file, or a folder if there are no patterns; "" if canceled."""
    return _Browser(context, title, patterns).ask(start)


class _Browser:
    """A dialog with places, the entries of a folder, and what is known about the selected one."""

    def __init__(self, context: Context, title: str, patterns: Patterns | None) -> None:
        self._dialog = Dialog(context, title)
        self._context = context
        self._patterns = patterns
        self._folder = Path.home()
        self._reading: Path | None = None  # the folder that is to be listed
        self._all: Sequence[FolderEntry] = ()
        self._entries: dict[str, FolderEntry] = {}  # those that are shown
        self._left_out = 0  # of those with the text that was typed
        self._part = ""  # that text
        self._facts = EntryFacts(())
        self._described: Path | None = None
        self._known: Path | None = None  # what the facts are about
        self._result = ""
        widgets = context.widgets
        self._path = tk.StringVar(self._dialog.window)
        entry = ttk.Entry(self._dialog.body, textvariable=self._path, font="OneTrainerBody")
        entry.pack(fill="x", pady=(widgets.px(10), widgets.px(8)))
        entry.bind("<Return>", lambda _: self._go_to_text())
        on_change(self._path, entry, self._narrow)
        widgets.name(entry, "answer path")
        line = widgets.frame(self._dialog.body)
        line.pack(fill="both", expand=True)
        self._places = self._make_places(line)
        self._list = self._make_list(line)
        entry.bind("<Down>", lambda _: self._list.focus_set())
        side = widgets.frame(line)
        side.pack(side="left", fill="y", padx=(widgets.px(12), 0))
        width = widgets.px(_FACTS_WIDTH)
        self._picture = Drawing(
            widgets, side, self._draw, width=width, height=width, name="answer picture"
        )
        self._text = widgets.label(side, style="SmallDim", wrap=_FACTS_WIDTH)
        self._text.pack(anchor="w", pady=widgets.px(6))
        widgets.name(self._text, "answer facts")
        self._picture.canvas.pack()
        self._add_buttons()

    def ask(self, start: Path) -> str:
        """Show the dialog with a folder, and return the chosen path."""
        self._show(start)
        self._dialog.wait(self._list)
        return self._result

    def _add_buttons(self) -> None:
        widgets = self._context.widgets
        line = widgets.frame(self._dialog.body)
        line.pack(fill="x", pady=(widgets.px(16), 0))
        label, take = ("Open", self._enter) if self._patterns else ("Select folder", self._take)
        choose = widgets.button(line, label, take, kind="primary", name="answer choose")
        choose.widget.pack(side="right", padx=(widgets.px(8), 0))
        self._dialog.add_button(line, "", "Cancel", name="cancel").widget.pack(side="right")

    def _make_places(self, parent: tk.Misc) -> ttk.Treeview:
        recent = [Path(folder) for folder in self._context.window_state.folders]
        places = [Path.home(), *(folder for folder in recent if folder != Path.home())]
        table = _table(self._context.widgets, parent, {"place": ("Places", _PLACES_WIDTH)})
        for place in places:
            name = "Home" if place == Path.home() else place.name or str(place)
            table.insert("", "end", iid=str(place), values=(name,))
        table.bind("<<TreeviewSelect>>", lambda _: self._show(Path(table.selection()[0])))
        table.pack(side="left", fill="y", padx=(0, self._context.widgets.px(12)))
        self._context.widgets.name(table, "answer places")
        return table

    def _make_list(self, parent: tk.Misc) -> ttk.Treeview:
        widgets = self._context.widgets
        screen = round(parent.winfo_screenwidth() / widgets.px(100) * 100)
        room = screen - _PLACES_WIDTH - _SIZE_WIDTH - _FACTS_WIDTH - _AROUND[0]
        name = min(max(room, _NAME_WIDTHS[0]), _NAME_WIDTHS[1])
        table = _table(widgets, parent, {"name": ("Name", name), "size": ("Size", _SIZE_WIDTH)})
        bar = widgets.scrollbar(parent, table.yview)
        table.configure(yscrollcommand=bar.set)
        table.pack(side="left", fill="both", expand=True)
        bar.pack(side="left", fill="y")
        table.bind("<<TreeviewSelect>>", lambda _: self._describe())
        table.bind("<Double-Button-1>", lambda _: self._enter())
        table.bind("<Return>", lambda _: self._enter())
        table.bind("<BackSpace>", lambda _: self._show(self._folder.parent))
        table.bind("<Key>", self._jump)
        widgets.name(table, "answer entries")
        return table

    def _show(self, folder: Path) -> None:
        """List a folder, read in a thread; one that cannot be read is named, and the list stays."""
        patterns = None if self._patterns is None else _all(self._patterns)
        text = self._path.get()

        def is_wanted() -> bool:
            return self._reading is folder and bool(self._list.winfo_exists())

        def read(entries: list[FolderEntry]) -> None:
            if is_wanted():
                self._folder, self._all = folder, entries
                if self._path.get() == text:  # what was typed meanwhile is not lost
                    self._path.set(str(folder))
                self._reading = None
                self._fill()

        def failed(error: Exception) -> None:
            if not isinstance(error, OSError):
                raise error
            if is_wanted():
                self._reading = None
                self._refuse(f"{folder.name}: {error.strerror}")

        self._reading, self._described = folder, None
        self._text.say("Reading …", "SmallDim")
        self._context.widgets.jobs.run(lambda: list_entries(folder, patterns), read, failed)

    def _narrow(self) -> None:
        """Show only entries that have the text in their name which was typed for the folder."""
        if self._reading is None and self._typed() != self._part:
            self._fill()

    def _typed(self) -> str:
        above = str(self._folder).rstrip(os.sep) + os.sep
        text = self._path.get().strip().removeprefix(above)
        return "" if os.sep in text else text.lower()

    def _fill(self) -> None:
        self._part = self._typed()
        found = [entry for entry in self._all if self._part in entry.path.name.lower()]
        self._entries = {entry.path.name: entry for entry in found[:_MOST_ROWS]}
        self._left_out = len(found) - len(self._entries)
        self._list.delete(*self._list.get_children())
        if self._folder != self._folder.parent:
            self._list.insert("", "end", iid=_UP, values=("Up", ""))
        theme = self._context.widgets.theme
        room = self._list.column("name", "width") - theme.px(_CELL_GAP)
        for name, entry in self._entries.items():
            size = "" if entry.is_folder else format_size(entry.size)
            shown = f"{shorten(name, room, theme.measure)}{'/' if entry.is_folder else ''}"
            self._list.insert("", "end", iid=name, values=(shown, size))
        first = self._list.get_children()[0] if self._list.get_children() else ""
        if first:
            self._list.focus(first)
        self._describe()

    def _selected(self) -> FolderEntry | None:
        selection = self._list.selection()
        return self._entries.get(selection[0]) if selection else None

    def _take(self) -> None:
        """Answer with the selected folder, or with the one that is listed."""
        entry = self._selected()
        if self._reading is None:  # otherwise another list is about to be there
            self._answer(entry.path if entry else self._folder)

    def _enter(self) -> str:
        """Open the entry, unless another list is about to be there."""
        name = (self._list.selection() or (self._list.focus(),))[0]
        if self._reading is not None:
            return "break"
        if name == _UP:
            self._show(self._folder.parent)
        elif name in self._entries:
            self._open(self._entries[name])
        return "break"

    def _open(self, entry: FolderEntry) -> None:
        """List a folder; a file is the answer."""
        if entry.is_folder:
            self._show(entry.path)
        else:
            self._answer(entry.path)

    def _go_to_text(self) -> str:
        text = self._path.get().strip()
        try:
            path = Path(expanded(text)) if text else self._folder
        except UserError:
            path = self._folder
        path = self._folder / path
        if path.is_dir() and (self._patterns is not None or path != self._folder):
            self._show(path)
        elif path.exists():
            self._answer(path)
        elif self._part and len(self._entries) == 1:  # the only one that has it in its name
            self._open(*self._entries.values())
        else:
            self._refuse(f"{path}: there is no such file or folder")
        return "break"

    def _refuse(self, why: str) -> None:
        """Say why, in the place of a description, also of one that is still to come."""
        self._described = None
        self._text.say(why, "Small")

    def _answer(self, path: Path) -> None:
        self._result = str(path)
        self._dialog.close("")

    def _jump(self, event: "tk.Event[tk.Misc]") -> None:
        """Select the next entry whose name begins with the letter that was typed."""
        letter = event.char.lower()
        names = list(self._entries)
        if not letter.strip() or not names:
            return
        chosen = self._list.selection()
        after = names.index(chosen[0]) + 1 if chosen and chosen[0] in names else 0
        for name in [*names[after:], *names[:after]]:
            if name.lower().startswith(letter):
                self._list.selection_set(name)
                self._list.focus(name)
                self._list.see(name)
                return

    def _describe(self) -> None:
        """Describe the selected entry, or the folder, in a thread."""
        entry = self._selected()
        path = entry.path if entry else self._folder
        if self._reading is not None:
            return
        if path == self._described:
            self._say_facts()
            return
        self._described = path

        def described(facts: EntryFacts) -> None:
            if self._described == path and self._text.winfo_exists():
                self._facts, self._known = facts, path
                self._say_facts()
                self._draw()

        self._context.widgets.jobs.run(lambda: describe_entry(path), described)

    def _say_facts(self) -> None:
        """Say how many entries are not shown, and what is known of what is described."""
        if self._known != self._described:
            return  # it is still to come
        entry, lines = self._selected(), [*self._facts.lines]
        if entry is not None and self._list.set(entry.path.name, "name").endswith("…"):
            lines.insert(0, entry.path.name)
        if self._part and not self._entries:
            lines.insert(0, f"No name here has “{self._part}” in it.")
        elif self._left_out:
            shown = len(self._entries)
            count = f"The first {shown:,} of {shown + self._left_out:,}"
            lines.insert(0, f"{count}; type part of a name above to narrow down.")
        self._text.say("\n".join(lines), "SmallDim")

    def _draw(self) -> None:
        if not self._picture.canvas.winfo_exists():
            return
        self._picture.begin()
        path, side = self._facts.image, self._context.widgets.px(_FACTS_WIDTH)
        image = self._context.images.get(path, side, side, self._draw) if path else None
        if image is not None:
            self._picture.image(path, image, side // 2, side // 2, 0)


def _table(widgets: Widgets, parent: tk.Misc, columns: dict[str, tuple[str, int]]) -> ttk.Treeview:
    """Create a table with headings; columns: label and width by name."""
    rows = (parent.winfo_screenheight() - widgets.px(_AROUND[1])) // widgets.px(32)
    height = min(max(rows, _ROWS[0]), _ROWS[1])
    table = ttk.Treeview(
        parent, columns=list(columns), show="headings", selectmode="browse", height=height
    )
    for name, (label, width) in columns.items():
        table.heading(name, text=label, anchor="w")
        table.column(name, width=widgets.px(width), anchor="w", stretch=name == "name")
    widgets.scroll_by_wheel(table)
    return table


def _all(patterns: Patterns) -> list[str]:
    """Return the patterns that come first, unless these are of everything."""
    return list(next(iter(patterns.values())))
