"""Editors: one widget for each type of value."""

import tkinter as tk
from collections.abc import Callable, Mapping
from functools import partial
from tkinter import ttk
from typing import Protocol

from onetrainer.config.fields import Setting
from ui.context import PathKind
from ui.forms.amount import AmountEditor
from ui.forms.paragraph import ParagraphEditor
from ui.model.form_fields import display_text, edit_text, parse_value
from ui.widgets.button import Button
from ui.widgets.changes import on_change
from ui.widgets.tooltip import Tooltip
from ui.widgets.widgets import Widgets, focused

Changed = Callable[[], None]
_NUMBER_CHARACTERS = 10
_ARROW_CHARACTERS = 2
_CHOOSERS: Mapping[PathKind, tuple[str, str]] = {
    "folder": ("Folder…", "folder"),
    "file": ("File…", "file"),
    "model": ("File…", "file"),
    "known-model": ("Models…", "known"),
}
"""Label and name of the buttons that choose a path."""


class Editor(Protocol):
    """Widget that shows a value and lets the user change it.

    widget: to be placed. focus: widget that takes the keyboard. is_wide: whether it fills the row.
    """

    widget: tk.Widget
    focus: tk.Misc
    is_wide: bool

    def show(self, value: object) -> None:
        """Show a value; text being typed that means the same is left alone."""

    def read(self) -> object:
        """Return the value shown, or the text if it is not a valid value."""

    def mark(self, severity: str) -> None:
        """Mark the value as wrong ("error"), unusual ("warning") or fine ("")."""

    def fill(self, width: int) -> None:
        """Make a field that does not fill its row as wide as others, in pixels."""


def make_editor(
    widgets: Widgets, parent: tk.Misc, setting: Setting, path: str, changed: Changed
) -> Editor:
    """Create the editor for the type of a setting, and name its controls by a path.

    `changed` is called at each change.
    """
    made = _make_editor(widgets, parent, setting, changed)
    widgets.name(made.focus, path)
    if isinstance(made, AmountEditor):
        widgets.name(made.unit, f"unit {path}")
    return made


def _make_editor(widgets: Widgets, parent: tk.Misc, setting: Setting, changed: Changed) -> Editor:
    match setting.kind:
        case "yes-no":
            return SwitchEditor(widgets, parent, changed)
        case "choice":
            return ChoiceEditor(widgets, parent, setting, changed)
        case "amount":
            return AmountEditor(widgets, parent, setting, changed)
        case "text" if setting.ui.editor == "text":
            return ParagraphEditor(widgets, parent, setting, changed)
        case _:
            return EntryEditor(widgets, parent, setting, changed)


class EntryEditor:
    """Line of text: a number, a name, or a path with buttons that choose one."""

    def __init__(
        self, widgets: Widgets, parent: tk.Misc, setting: Setting, changed: Changed
    ) -> None:
        self._widgets = widgets
        self._setting = setting
        self._changed = changed
        self._is_showing = False
        self._text = tk.StringVar(parent)
        self.is_wide = setting.kind == "text"
        self.is_tall = len(_kinds(setting)) > 1  # with buttons below it
        self._frame = frame = widgets.frame(parent)
        entry = ttk.Entry(frame, textvariable=self._text, font="OneTrainerBody")
        entry.grid(row=0, column=0, sticky="ew")
        entry.configure(width=_NUMBER_CHARACTERS)  # a text takes the room that there is
        if self.is_wide:
            frame.grid_columnconfigure(0, weight=1)
        self._unit = widgets.label(frame, setting.ui.unit, style="Dim")
        if setting.ui.unit or setting.ui.zero:
            self._unit.grid(row=0, column=1, padx=(widgets.px(8), 0))
        entry.bind("<FocusOut>", self._normalize, add="+")
        on_change(self._text, entry, self._typed)
        self.widget: tk.Widget = frame
        self.focus: tk.Misc = entry
        self._entry = entry

    def show(self, value: object) -> None:
        has_focus = focused(self._entry) is self._entry
        if not has_focus or parse_value(self._text.get(), self._setting) != value:
            self._set(edit_text(value))

    def read(self) -> object:
        return parse_value(self._text.get(), self._setting)

    def mark(self, severity: str) -> None:
        self._entry.state(
            [
                "invalid" if severity == "error" else "!invalid",
                "alternate" if severity == "warning" else "!alternate",
            ]
        )

    def fill(self, width: int) -> None:
        if not self.is_wide:
            self._frame.grid_columnconfigure(0, minsize=width)

    def add_choosers(self, choose: Callable[[PathKind, str], str], path: str) -> list[Button]:
        """Add and return buttons that choose the path that the setting is, if it is one.

        A single one stands beside the path, several below it, which leaves it the width.
        """

        def chosen(kind: PathKind) -> None:
            chosen_path = choose(kind, str(self.read()))
            if chosen_path:
                self._text.set(chosen_path)

        buttons: list[Button] = []
        kinds, gap = _kinds(self._setting), self._widgets.px(6)
        line = self._widgets.frame(self._frame)
        if self.is_tall:
            line.grid(row=1, column=0, sticky="w", pady=(gap, 0))
        elif kinds:
            line.grid(row=0, column=2, padx=(gap, 0))
        for kind in kinds:
            label, name = _CHOOSERS[kind]
            full_name = f"choose {name} {path}"
            button = self._widgets.button(line, label, partial(chosen, kind), name=full_name)
            button.widget.pack(side="left", padx=(gap if buttons else 0, 0))
            buttons.append(button)
        return buttons

    def _typed(self) -> None:
        if self._setting.ui.zero:
            self._show_unit()
        if not self._is_showing:
            self._changed()

    def _show_unit(self) -> None:
        zero = self._setting.ui.zero
        self._unit.configure(text=zero if self.read() == 0 else self._setting.ui.unit)

    def _set(self, text: str) -> None:
        if self._text.get() != text:
            self._is_showing = True
            self._text.set(text)
            self._is_showing = False
            self._entry.xview_moveto(1.0 if self._setting.ui.is_path else 0.0)

    def _normalize(self, _: "tk.Event[tk.Misc]") -> None:
        self._entry.selection_clear()
        value = self.read()
        if self._setting.kind != "text" and not isinstance(value, str):
            self._set(edit_text(value))


class ChoiceEditor:
    """Choice from a few values."""

    is_wide = False

    def __init__(
        self, widgets: Widgets, parent: tk.Misc, setting: Setting, changed: Changed
    ) -> None:
        labels = [setting.choice_label(choice) for choice in setting.choices]
        measure = widgets.theme.measure
        longest = -(-max(map(measure, labels), default=0) // measure("0"))
        box = ttk.Combobox(
            parent,
            values=labels,
            state="readonly",
            width=longest + _ARROW_CHARACTERS,
            font="OneTrainerBody",
            height=12,
        )
        box.bind("<<ComboboxSelected>>", lambda _: self._chosen(), add="+")
        self._widgets = widgets
        self._setting = setting
        self._values = dict(zip(labels, setting.choices, strict=True))
        self._changed = changed
        self._box = box
        self.widget: tk.Widget = box
        self.focus: tk.Misc = box

    def show(self, value: object) -> None:
        self._box.set(display_text(value, self._setting))

    def read(self) -> object:
        return self._values.get(self._box.get(), self._box.get())

    def mark(self, severity: str) -> None:
        self._box.state(["invalid" if severity == "error" else "!invalid"])

    def fill(self, width: int) -> None:
        """Leave it: the grid stretches it."""

    def _chosen(self) -> None:
        self._box.selection_clear()
        self._changed()


class SwitchEditor:
    """Choice between yes and no."""

    is_wide = False

    def __init__(self, widgets: Widgets, parent: tk.Misc, changed: Changed) -> None:
        self._widgets = widgets
        self._switch = widgets.switch(parent, changed)
        self.widget: tk.Widget = self._switch.widget
        self.focus: tk.Misc = self._switch.widget

    def show(self, value: object) -> None:
        self._switch.show(value is True)

    def read(self) -> object:
        return self._switch.is_on

    def mark(self, severity: str) -> None:
        """Leave it: both values are valid, and the message below says the rest."""

    def fill(self, width: int) -> None:
        """Leave it: a switch has a size of its own."""


def add_help_tooltip(widgets: Widgets, widget: tk.Misc, setting: Setting) -> None:
    """Give an editor, or its label, the help of its setting as tooltip.

    The tooltip is off while the value has a problem, because it would cover the message.
    """

    def text() -> str:
        fields = (widget, widgets.named.get(setting.path))
        is_wrong = any(field in widgets.with_problem for field in fields if field)
        return "" if is_wrong else setting.help_text

    Tooltip(widget, widgets.theme, text)


def _kinds(setting: Setting) -> list[PathKind]:
    match setting.ui.editor:
        case "folder" | "new-folder":
            return ["folder"]
        case "file":
            return ["file"]
        case "model" if setting.path == "model.path":
            return ["known-model", "model", "folder"]
        case "model":
            return ["model", "folder"]
        case _:
            return []
