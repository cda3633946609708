"""One setting on a page: its label, its editor, and what is wrong with it in words."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass
from tkinter import ttk

from onetrainer.config.fields import Setting
from onetrainer.errors import Problem, sentence
from ui.draft import Draft
from ui.forms.fields import as_text
from ui.forms.widgets import explain, make_editor
from ui.kit import Kit
from ui.tooltip import Tooltip

CHECK_AFTER_MS = 150
LABEL_WIDTH = 190
_FLASH_MS = 1200


@dataclass(frozen=True)
class FormContext:
    """What every row needs. on_focus: told of the setting whose editor has the keyboard."""

    kit: Kit
    draft: Draft
    on_focus: Callable[[Setting, str], None]


class Row:
    """A setting's widgets in two lines of a grid: the row itself and the words below it."""

    def __init__(
        self, context: FormContext, parent: tk.Misc, setting: Setting, path: str = ""
    ) -> None:
        self.setting = setting
        self.path = path or setting.path
        self._context = context
        self._waiting = ""
        kit = context.kit
        self._dot = kit.label(parent, style="Accent")
        self._label = kit.label(parent, setting.ui.label)
        self.editor = make_editor(kit, parent, setting, self._changed)
        self._reset = ttk.Button(
            parent, text="↺", width=2, style="QuietCard.TButton", command=self._go_back
        )
        self._message: ttk.Label = kit.label(parent, wrap=420)
        Tooltip(self._reset, kit.theme, self._reset_words)
        for widget in (self._label, self.editor.focus):
            explain(kit, widget, setting)
        self.editor.focus.bind("<FocusIn>", lambda _: context.on_focus(setting, self.path), add="+")
        self.editor.focus.bind("<FocusOut>", lambda _: self.commit(), add="+")
        self.editor.focus.bind("<Return>", lambda _: self.commit(), add="+")
        kit.name(self.editor.focus, self.path)
        kit.name(self._reset, f"reset {self.path}")

    def place(self, line: int, *, is_stacked: bool = False) -> None:
        """Puts the widgets into the grid, in lines `line` to `line + 2`."""
        px = self._context.kit.px
        self._dot.grid(row=line, column=0, sticky="w")
        gap = px(4)
        if is_stacked:
            self._label.grid(row=line, column=1, columnspan=2, sticky="w", pady=gap)
            self.editor.widget.grid(row=line + 1, column=1, columnspan=2, sticky="ew")
        else:
            self._label.grid(row=line, column=1, sticky="w", pady=gap)
            sticky = "ew" if self.editor.is_wide else "w"
            self.editor.widget.grid(row=line, column=2, sticky=sticky, pady=gap)
        self._reset.grid(row=line, column=3, sticky="e", padx=(px(4), 0))
        self._message.grid(
            row=line + 2, column=1 if is_stacked else 2, columnspan=2, sticky="w", pady=(0, px(4))
        )
        self.refresh()

    def hide(self) -> None:
        """Takes the widgets out of the grid; they are kept."""
        parts = (self._dot, self._label, self.editor.widget, self._reset, self._message)
        for widget in parts:
            widget.grid_remove()

    def show(self) -> None:
        """Puts the widgets back to where they were."""
        for widget in (self._dot, self._label, self.editor.widget):
            widget.grid()
        self.refresh()

    def refresh(self) -> None:
        """Shows the draft's value and what is wrong with it."""
        draft = self._context.draft
        if not self._waiting:
            self.editor.show(draft.value(self.path))
        problems = draft.problems_at(self.path)
        self.editor.mark(problems[0].severity if problems else "")
        self._say(problems)
        # An entry added to a list has nothing to go back to.
        has_base = self.path == self.setting.path or draft.base_value(self.path) is not None
        is_changed = has_base and draft.is_changed(self.path)
        self._dot.configure(text="•" if is_changed else " ")
        if is_changed:
            self._reset.grid()
        else:
            self._reset.grid_remove()

    def commit(self) -> None:
        """Hands what was typed to the draft now."""
        if self._waiting:
            self._label.after_cancel(self._waiting)
            self._waiting = ""
            self._context.draft.set(self.path, self.editor.read())

    def take_focus(self) -> None:
        """Gives the editor the keyboard and shows for a moment where it is."""
        self.editor.focus.focus_set()
        self._label.configure(style="Accent.Card.TLabel")
        self._label.after(_FLASH_MS, lambda: self._label.configure(style="Card.TLabel"))

    @property
    def error(self) -> str:
        """The words shown below the editor."""
        return str(self._message.cget("text")) if self._message.winfo_ismapped() else ""

    def _changed(self) -> None:
        if self._waiting:
            self._label.after_cancel(self._waiting)
        self._waiting = self._label.after(CHECK_AFTER_MS, self.commit)

    def _say(self, problems: list[Problem]) -> None:
        if not problems:
            self._message.grid_remove()
            return
        style = "SmallDanger" if problems[0].severity == "error" else "SmallWarning"
        text = "\n".join(f"⚠ {in_words(problem)}" for problem in problems)
        self._message.configure(text=text, style=f"{style}.Card.TLabel")
        self._message.grid()

    def _go_back(self) -> None:
        self.editor.focus.focus_set()
        self._context.draft.reset(self.path)

    def _reset_words(self) -> str:
        base = as_text(self._context.draft.base_value(self.path)) or "nothing"
        return f"Back to {base}"


def in_words(problem: Problem) -> str:
    """A problem as it is said beside the field."""
    parts = [
        capitalized(problem.what),
        problem.expected,
        "" if _is_plain(problem) else problem.remedy,
    ]
    return " ".join(sentence(part) for part in parts if part)


def capitalized(text: str) -> str:
    """The text with a capital at its start, unless it starts with a name: "sdxl.safetensors: …"."""
    place, colon, _ = text.partition(": ")
    is_name = bool(colon) and (" " not in place or "." in place)
    return text if is_name else text[:1].upper() + text[1:]


def _is_plain(problem: Problem) -> bool:
    """Whether the remedy only says to correct the value, which goes without saying there."""
    return problem.remedy.startswith(("Correct it", "Choose one"))
