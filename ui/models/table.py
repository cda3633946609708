"""Table of the base models used before and those in the folders that a person has named."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.families.registry import FAMILY_LABELS
from ui.background.known_models import KnownModel
from ui.context import Context
from ui.progress.units import format_bytes
from ui.widgets.placing import show
from ui.widgets.tooltip import Tooltip

_COLUMNS = {
    "name": ("Name", 230),
    "family": ("Family", 110),
    "precision": ("Precision", 80),
    "size": ("Size", 76),
    "place": ("Folder", 160),
}
_NONE = (
    "These are published models, which are downloaded when training starts. Add the folder that "
    "you keep your own in."
)
_NO_NEW = f"No base models were found there. {_NONE}"
_HUB = "Hugging Face Hub"
_PROGRAMS = "Your own folder, or that of ComfyUI or A1111: their models are found in it."
_MOST_FOLDERS_SHOWN = 4
_LEAST = 60


class ModelTable:
    """Table with the folders that it lists; place `outer`.

    chosen: called with what chooses a model, when it is selected. take: called on Return and on a
    double click. fills: whether it takes the width that there is, and asks for none.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        chosen: Callable[[str], None],
        take: Callable[[], None],
        *,
        rows: int,
        fills: bool = False,
    ) -> None:
        self._context = context
        self._chosen = chosen
        widgets, px = context.widgets, context.widgets.px
        self.outer = widgets.frame(parent)
        line = widgets.frame(self.outer)
        line.pack(fill="both", expand=True)
        table = self.table = ttk.Treeview(
            line, columns=list(_COLUMNS), show="headings", selectmode="browse", height=rows
        )
        for name, (label, width) in _COLUMNS.items():
            table.heading(name, text=label, anchor="w")
            is_wide = name in ("name", "place")
            asked = px(_LEAST if fills and is_wide else width)
            table.column(name, width=asked, minwidth=px(_LEAST), anchor="w", stretch=is_wide)
        bar = widgets.scrollbar(line, table.yview)
        table.configure(yscrollcommand=bar.set)
        table.pack(side="left", fill="both", expand=True)
        bar.pack(side="left", fill="y")
        table.bind("<<TreeviewSelect>>", lambda _: self._selected())
        table.bind("<Down>", lambda _: self._begin())
        for sequence in ("<Return>", "<Double-Button-1>"):
            table.bind(sequence, lambda _: self._take(take))
        widgets.scroll_by_wheel(table)
        widgets.name(table, "answer models")
        self._note = widgets.label(self.outer, style="SmallDim", wrap=560)
        self._note.pack(anchor="w", pady=(px(6), 0))
        foot = widgets.frame(self.outer)
        foot.pack(fill="x", pady=(px(6), 0))
        add = widgets.button(foot, "Add a folder of models…", self._add, name="answer add folder")
        add.describe(_PROGRAMS)
        add.widget.pack(side="left")
        self._folders = widgets.frame(foot)
        self._folders.pack(side="left", padx=(px(10), 0))
        self._shown_folders: list[str] = []
        self._texts: dict[str, str] = {}
        self._passed = ""  # the model that was passed to `chosen` last
        context.models.listen(self.refresh)
        table.bind("<Destroy>", lambda _: context.models.forget(self.refresh))
        context.models.read()

    def refresh(self) -> None:
        """Show the models that are known so far."""
        models = self._context.models
        wanted = {model.text: _values(model) for model in models.models}
        kept = self.table.selection()
        if not models.models or list(wanted)[: len(self._texts)] != list(self._texts.values()):
            self.table.delete(*self.table.get_children())
            self._texts.clear()
        for text, values in list(wanted.items())[len(self._texts) :]:
            row = self.table.insert("", "end", values=values)
            self._texts[row] = text
        if kept and self.table.exists(kept[0]):
            self.table.selection_set(kept[0])
        note = "Reading …" if models.is_working else ""
        is_any_here = any(model.size for model in models.models)
        if not is_any_here and any(model.is_proposed for model in models.models):
            note = _NO_NEW if self._context.window_state.model_folders else _NONE
        self._note.say(note)
        show(self._note, bool(note), anchor="w", pady=(self._context.widgets.px(6), 0))
        self._show_folders()

    def show_chosen(self, text: str) -> None:
        """Select no model any more that another choice has taken the place of."""
        if text == self._passed:
            return
        for row in self.table.selection():
            # A row that was just selected was not passed yet: Tk reports it later.
            if self._texts[row] == self._passed:
                self.table.selection_remove(row)
        self._passed = ""

    def _selected(self) -> None:
        for row in self.table.selection():
            self._passed = self._texts[row]
            self._chosen(self._passed)

    def _take(self, take: Callable[[], None]) -> None:
        """Take the selected model; Tk reports a selection after the next key only."""
        self._selected()
        take()

    def _begin(self) -> str | None:
        """Select the first model; Tk's own keys go on from there."""
        rows = self.table.get_children()
        if not rows or self.table.selection():
            return None
        self.table.focus(rows[0])
        self.table.selection_set(rows[0])
        return "break"

    def _add(self) -> None:
        start = self._context.window_state.folder_of_models()
        folder = self._context.act.choose_path("folder", start)
        if folder and self.table.winfo_exists():
            self._context.models.add_folder(folder)
            self._context.act.save_state_soon()

    def _forget(self, folder: str) -> None:
        self.table.focus_set()
        self._context.models.forget_folder(folder)
        self._context.act.save_state_soon()

    def _show_folders(self) -> None:
        folders = list(self._context.window_state.model_folders)
        if folders == self._shown_folders:
            return
        self._shown_folders = folders
        widgets = self._context.widgets
        widgets.forget(self._folders)
        for child in self._folders.winfo_children():
            child.destroy()
        for index, folder in enumerate(folders[-_MOST_FOLDERS_SHOWN:]):
            name = Path(folder).name or folder
            forget = partial(self._forget, folder)
            button = ttk.Button(self._folders, text=f"{name}  ×", style="QuietCard.TButton")
            button.configure(command=forget)
            button.pack(side="left")
            Tooltip(button, widgets.theme, partial("{}\nA click leaves it out.".format, folder))
            widgets.name(button, f"answer forget folder {index}")


def _values(model: KnownModel) -> tuple[str, ...]:
    path = Path(model.text)
    if not model.family:
        return (path.name, "", "", "", _HUB)
    if model.is_proposed:
        return (path.name, FAMILY_LABELS[model.family], "", "", _HUB)
    family = FAMILY_LABELS[model.family]
    place = path.parent.name or str(path.parent)
    return (path.name, family, model.precision, format_bytes(model.size), place)
