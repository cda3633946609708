"""Fields of a job's request, made from its section as the options of the terminal are."""

import tkinter as tk
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.config.base.section import Section
from onetrainer.config.fields import Setting, settings
from onetrainer.errors import UserError
from onetrainer.presets.find import expanded
from ui.context import Context
from ui.forms.field_help import FieldHelp
from ui.forms.lora_rows import LoraRows
from ui.model.labeled_request import in_words_of_the_window
from ui.widgets.changes import on_change
from ui.widgets.tooltip import Tooltip

_PATHS = ("IN", "OUT", "MODEL", "BASE", "TRAINED", "FILE")
"""Units of fields that are files or folders."""
_LORAS = "loras"
_RESULT = ("to", "precision", "family", "overwrite", "device", "picture")


class RequestForm:
    """A row for each field of a request; lists of anything but LoRAs and files are left out.

    Args:
        name: What the names of controls begin with.
        fields: The fields to show, in their order; None for all.
        columns: How many fields stand beside each other.
        has_help: Whether the help of the field that has the keyboard stands below it.
        changed: Called after each change.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        request: type[Section],
        *,
        name: str,
        fields: Sequence[str] | None = None,
        columns: int = 1,
        has_help: bool = False,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._context, self._name, self._changed = context, name, changed
        self._request = request
        self._typed: dict[str, Callable[[], object]] = {}
        self._help: FieldHelp | None = None
        if has_help:
            self._help = FieldHelp(context.widgets, parent, 2 * columns, name=f"{name} help")
        self._targets: list[tk.StringVar] = []
        # The same field of two requests is two fields.
        self._kept_as = f"{name} {request.__name__}"
        shown = [each for each in settings(request) if each.kind != "list" or _is_shown(each)]
        required = {name for name, field in request.model_fields.items() if field.is_required()}
        if fields is not None:
            by_path = {each.path: each for each in shown}
            shown = [by_path[path] for path in fields]
        else:  # what must be given comes first, how it is written last
            shown.sort(key=lambda each: (each.path not in required, each.path in _RESULT))
        for index, setting in enumerate(shown):
            default = "" if setting.path in required or setting.default is None else setting.default
            if setting.kind == "list":
                default = ""
            if isinstance(default, float):
                default = f"{default:g}"
            self._add(parent, divmod(index, columns), setting, str(default))
        for column in range(columns):
            parent.grid_columnconfigure(2 * column + 1, weight=1)

    def values(self) -> Mapping[str, object]:
        """Return what was filled in, by field; empty fields are left out."""
        filled = {name: get() for name, get in self._typed.items()}
        return {name: value for name, value in filled.items() if value not in ("", [])}

    def _add(self, parent: tk.Misc, place: tuple[int, int], setting: Setting, default: str) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        row, column = 2 * place[0], 2 * place[1]  # the rows between are for help
        text = in_words_of_the_window(setting.help, self._request)
        left = px(20) if column else 0
        label = widgets.label(parent, setting.ui.label)
        label.grid(row=row, column=column, sticky="nw", padx=(left, px(16)), pady=px(5))
        Tooltip(label, widgets.theme, lambda: text)
        box = widgets.frame(parent)
        box.grid(row=row, column=column + 1, sticky="ew", pady=px(3))
        name = f"{self._name} {setting.path}"
        if setting.path == _LORAS:
            kept_as = f"{self._kept_as} {setting.path}"
            rows = LoraRows(self._context, box, self._changed, kept_as=kept_as)
            self._typed[setting.path] = rows.listed
        elif setting.kind == "yes-no":
            self._typed[setting.path] = self._add_switch(box, setting, name)
        else:
            self._typed[setting.path] = self._add_value(box, setting, name, default)
        if self._help is not None:
            self._help.follow(box, text, row + 1)

    def _add_switch(self, box: ttk.Frame, setting: Setting, name: str) -> Callable[[], object]:
        """Create a switch; return what reads it."""
        widgets = self._context.widgets
        switch = widgets.kept_switch(box, f"{self._kept_as} {setting.path}", self._changed)
        switch.widget.pack(anchor="w")
        widgets.name(switch.widget, name)
        return lambda: switch.is_on

    def _add_value(
        self, box: ttk.Frame, setting: Setting, name: str, default: str
    ) -> Callable[[], object]:
        """Create an entry or a choice; return what reads it."""
        widgets = self._context.widgets
        labels = {setting.ui.choices.get(each, each): each for each in setting.choices}
        if setting.choices:
            if setting.is_optional:
                labels = {"automatic": "", **labels}
            default = next(label for label, each in labels.items() if each == default)
        value = widgets.kept.variable(box, f"{self._kept_as} {setting.path}", default)
        on_change(value, box, self._changed)
        if setting.choices:
            chosen = ttk.Combobox(box, textvariable=value, values=list(labels), state="readonly")
            chosen.configure(font="OneTrainerBody", width=24)
            chosen.pack(anchor="w")
            widgets.name(chosen, name)
            return lambda: labels[value.get()]
        is_path, is_list = setting.ui.unit in _PATHS, setting.kind == "list"
        entry = ttk.Entry(box, textvariable=value, font="OneTrainerBody", width=10)
        if is_path:
            is_target = setting.ui.unit == "OUT"
            self._targets += [value] * is_target
            choose, text = (self._choose, "Choose…")
            if is_target:
                choose, text = (self._choose_folder, "Folder…")
            elif is_list:
                choose, text = (self._add_file, "Add…")
            button = widgets.button(box, text, partial(choose, value), name=f"{name} …")
            button.widget.pack(side="right", padx=(widgets.px(8), 0))
        is_wide = is_path or setting.kind == "text"
        entry.pack(side="left", fill="x" if is_wide else "none", expand=is_wide)
        widgets.name(entry, name)
        if is_list:
            return lambda: [
                _expanded(part.strip()) for part in value.get().split("|") if part.strip()
            ]
        return lambda: _expanded(value.get().strip()) if is_path else value.get().strip()

    def propose(self, target: Path) -> None:
        """Fill in what is to be written, unless a person has."""
        kept, name = self._context.widgets.kept, f"{self._kept_as} proposed"
        for value in self._targets:
            proposed = kept.value(name, "")
            if value.get() in ("", proposed) and str(target) != proposed:
                kept.keep(name, str(target))
                value.set(str(target))

    def _choose_folder(self, value: tk.StringVar) -> None:
        """Let the folder be chosen, and keep the name."""
        target = Path(value.get())
        folder = self._context.act.choose_path("folder", str(target.parent) if target.name else "")
        if folder:
            value.set(str(Path(folder, target.name)))

    def _add_file(self, value: tk.StringVar) -> None:
        *before, last = value.get().split("|")
        path = self._context.act.choose_path("model", last.strip())
        if path:
            value.set(" | ".join(part.strip() for part in (*before, last, path) if part.strip()))

    def _choose(self, value: tk.StringVar) -> None:
        path = self._context.act.choose_path("model", value.get())
        if path:
            value.set(path)


def _is_shown(setting: Setting) -> bool:
    """Return whether a list can be filled in: as rows, or as files with | between them."""
    return setting.path == _LORAS or setting.ui.unit == "FILE"


def _expanded(path: str) -> str:
    """Return a path with `~` replaced by the home folder; of no known user it stays."""
    with suppress(UserError):
        return expanded(path) if path.startswith("~") else path
    return path
