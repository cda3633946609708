"""Row of a form: label, editor and problems of one setting."""

import tkinter as tk
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from tkinter import ttk
from typing import Protocol

from onetrainer.config.fields import Setting
from onetrainer.errors import Fix
from ui.context import PathKind
from ui.forms.amount import AmountEditor
from ui.forms.editors import ChoiceEditor, EntryEditor, add_help_tooltip, make_editor
from ui.forms.paragraph import ParagraphEditor
from ui.messages.problems import fix_label, problem_lines
from ui.model.draft import Draft
from ui.model.form_fields import display_text
from ui.widgets.button import Button
from ui.widgets.placing import show_in_grid
from ui.widgets.tooltip import Tooltip
from ui.widgets.widgets import CARD_PAD, Label, Widgets, focused

CHECK_AFTER_MS = 150
LABEL_WIDTH, NARROW_LABEL_WIDTH = 208, 150
# Room for the longest choice, in characters and in pixels for what is around them.
_FIELD_CHARACTERS, _FIELD_PADDING = 28, 42
_RESET_WIDTH = 34
COLUMNS = 5
_BELOW_ALL = 99
LINES = 6
_FIXES_IN_ROW = 2
_FLASH_MS = 1200
_LEAD_WRAP, _MESSAGE_WRAP = 620, 420
_DOT_WIDTH = 10
_NARROW = 640


class Plot(Protocol):
    """Plot of the settings of a card."""

    widget: tk.Widget

    def draw(self) -> None:
        """Draw the current draft."""


@dataclass
class Room:
    """Width of the cards of a form in pixels of the screen; 0 while it is not known."""

    width: int = 0


@dataclass(frozen=True)
class FormContext:
    """Services that every row needs.

    on_focus: called with the setting whose editor gets the focus, and its path. plots: creates the
    plot at the foot of a card, by the path of its section. show: scrolls the page to a widget.
    note: returns what an amount is in other units. choose_path: lets the user choose one.
    proposals: by the path of a list, what a button does that fills it while it is empty, after the
    button's label. room: What the cards have.
    """

    widgets: Widgets
    draft: Draft
    on_focus: Callable[[Setting, str], None]
    plots: Mapping[str, Callable[[tk.Misc], Plot]] = field(default_factory=dict)
    show: Callable[[tk.Misc], None] = lambda _: None
    note: Callable[[object], str] = lambda _: ""
    choose_path: Callable[[PathKind, str], str] = lambda _, current: current
    proposals: Mapping[str, tuple[str, Callable[[], None]]] = field(default_factory=dict)
    room: Room = field(default_factory=Room)

    @property
    def is_narrow(self) -> bool:
        """Whether labels of paths and texts stand above them, for want of width."""
        return 0 < self.room.width < self.widgets.px(_NARROW)

    def fitting(self, length: int, *, taken: int = 0) -> int:
        """Return a length of 96 dpi in pixels, at most what a card has left of its width."""
        if not self.room.width:
            return self.widgets.px(length)
        room = self.room.width - self.widgets.px(2 * CARD_PAD + taken)
        return min(self.widgets.px(length), room)


def make_columns(widgets: Widgets, grid: tk.Misc, *, label_width: int) -> None:
    """Set the columns of rows: mark, label, field, the rest of the width, and reset."""
    px, field_width = widgets.px, _field_width(widgets)
    for column, width in enumerate(
        (px(_DOT_WIDTH), px(label_width), field_width, 0, px(_RESET_WIDTH))
    ):
        grid.grid_columnconfigure(column, minsize=width, weight=int(not width))


def _field_width(widgets: Widgets) -> int:
    """Return the width of choices, numbers and amounts, which end at one edge; texts fill rows."""
    return _FIELD_CHARACTERS * widgets.theme.measure("0") + widgets.px(_FIELD_PADDING)


class Row:
    """Widgets of a setting in six lines of a grid, most of them usually empty.

    From top to bottom: lead of its group, the row itself, the editor where it is below the label,
    the problems, the buttons that fix them, and the help where a page shows it there.
    """

    def __init__(
        self, context: FormContext, parent: tk.Misc, setting: Setting, path: str = ""
    ) -> None:
        self.setting = setting
        self.line = -1
        self.path = path or setting.path
        self._context = context
        self._waiting = ""
        self._is_new = self._is_stacked = False
        self._fixes: list[Fix] = []
        self._fix_buttons: list[Button] = []
        self._fix_line: ttk.Frame | None = None
        widgets = context.widgets
        self._lead: Label | None = None
        if setting.ui.lead:
            self._lead = widgets.label(parent, setting.ui.lead, style="SmallDim")
        self._parent = parent
        self._dot = widgets.label(parent, style="Accent")
        self._label = widgets.label(parent, setting.ui.label)
        self.editor = make_editor(widgets, parent, setting, self.path, self._changed)
        if isinstance(self.editor, EntryEditor):
            for button in self.editor.add_choosers(context.choose_path, self.path):
                button.widget.bind("<FocusOut>", lambda _: self._focus_left(), add="+")
        self._reset = ttk.Button(parent, style="QuietCard.TButton", command=self._reset_value)
        self._reset.configure(image=" active ".join(widgets.theme.undo_images))
        widgets.name(self._reset, f"reset {self.path}")
        self._message = widgets.label(parent)
        Tooltip(self._reset, widgets.theme, self._reset_tooltip)
        for widget in (self._label, self.editor.focus):
            add_help_tooltip(widgets, widget, setting)
        self.editor.focus.bind("<FocusIn>", lambda _: context.on_focus(setting, self.path), add="+")
        self.editor.focus.bind("<FocusOut>", lambda _: self._focus_left(), add="+")
        self.editor.focus.bind("<Return>", lambda _: self.commit(), add="+")

    def raise_in_tab_order(self) -> None:
        """Move the row to the end of the Tab order."""
        parts = (self._lead, self._dot, self._label, self.editor.widget, self._reset)
        for widget in (*parts, self._message, self._fix_line):
            if widget is not None:
                # `Canvas.lift` raises canvas items instead of the widget.
                widget.tk.call("raise", str(widget))

    def detach(self) -> None:
        """Hide the row and drop what was being typed, because its setting no longer exists."""
        if self._has_typed():
            self._label.after_cancel(self._waiting)
            self._waiting = ""
        self.hide()

    @property
    def below(self) -> list[tk.Misc]:
        """Visible widgets below the editor: the problems and the buttons that fix them."""
        parts: tuple[tk.Misc | None, ...] = (self._message, self._fix_line)
        return [part for part in parts if part is not None and part.winfo_manager()]

    @property
    def is_shown(self) -> bool:
        """Whether the row is on the page now."""
        return bool(self.editor.widget.winfo_manager())

    def place(self, line: int, *, is_stacked: bool = False) -> None:
        """Place the widgets in the grid from a line on; they take up to `LINES` lines."""
        self.line, self._is_stacked = line, is_stacked
        context, px = self._context, self._context.widgets.px
        is_above = is_stacked or (context.is_narrow and self.editor.is_wide)
        if self._lead is not None:
            self._lead.configure(wraplength=context.fitting(_LEAD_WRAP))
            self._lead.grid(
                row=line, column=0, columnspan=COLUMNS, sticky="w", pady=(px(14), px(4))
            )
        if self._fix_line is not None:
            self._fix_line.grid(row=line + 4, column=2 - context.is_narrow)
        gap = px(4)
        # Next to an editor of several lines the label is aligned with the first one.
        has_buttons = isinstance(self.editor, EntryEditor) and self.editor.is_tall
        is_tall = (self.setting.ui.editor == "text" or has_buttons) and not is_above
        north, above = ("n", gap + px(6)) if is_tall else ("", gap)
        self._dot.grid(row=line + 1, column=0, sticky=f"{north}w", pady=(above, gap))
        # A long label has two lines, or it would push the next card off the page.
        self._label.configure(wraplength=0 if is_above else px(LABEL_WIDTH))
        if is_above:
            self._label.grid(row=line + 1, column=1, columnspan=3, sticky="w", pady=gap)
            self.editor.widget.grid(row=line + 2, column=1, columnspan=3, sticky="ew")
        else:
            self._label.grid(row=line + 1, column=1, sticky=f"{north}w", pady=(above, gap))
            is_choice = isinstance(self.editor, ChoiceEditor)
            sticky = "ew" if self.editor.is_wide or is_choice else "w"
            span = 1 if is_choice else 2
            self.editor.widget.grid(
                row=line + 1, column=2, columnspan=span, sticky=sticky, pady=gap
            )
            if isinstance(self.editor, AmountEditor):
                self.editor.place_note(is_below=context.is_narrow)
            self.editor.fill(_field_width(self._context.widgets))
        self._reset.grid(row=line + 1, column=4, sticky=f"{north}e", padx=(px(4), 0))
        is_first = is_stacked or context.is_narrow
        taken = _DOT_WIDTH if is_first else _DOT_WIDTH + LABEL_WIDTH
        self._message.configure(wraplength=context.fitting(_MESSAGE_WRAP, taken=taken))
        column = 1 if is_first else 2
        self._message.grid(row=line + 3, column=column, columnspan=3, sticky="w", pady=(0, px(4)))
        self.refresh()

    @property
    def place_below(self) -> tuple[tk.Misc, int]:
        """Grid and line of what is shown below the row; below all rows that are side by side."""
        if self._is_stacked:
            return self._parent.master or self._parent, _BELOW_ALL
        return self._parent, self.line + LINES - 1

    def show_below(self, box: ttk.Frame) -> None:
        """Place something below the row, in the same card."""
        grid, line = self.place_below
        gap = self._context.widgets.px(6)
        box.grid(in_=grid, row=line, column=1 - self._is_stacked, columnspan=COLUMNS, sticky="w")
        box.grid(pady=(gap, 2 * gap))
        box.lift()

    def hide(self) -> None:
        """Remove the widgets from the grid; they are kept."""
        self._is_new = False
        parts = (self._dot, self._label, self.editor.widget, self._reset, self._message)
        for widget in parts:
            widget.grid_remove()
        self.show_lead(is_shown=False)
        self._show_fixes([])

    def show(self) -> None:
        """Put the widgets back into the grid."""
        for widget in (self._dot, self._label, self.editor.widget):
            widget.grid()
        self.refresh()

    def show_lead(self, *, is_shown: bool) -> None:
        """Show or hide the lead of the group that starts with this row."""
        if self._lead is not None:
            show_in_grid(self._lead, is_shown)

    def refresh(self) -> None:
        """Show the draft's value and its problems."""
        draft = self._context.draft
        if not self._has_typed():
            self.editor.show(draft.value(self.path))
        if isinstance(self.editor, AmountEditor):
            self.editor.set_note(self._context.note(draft.value(self.path)))
        problems = [] if self._is_new else draft.problems_at(self.path)
        self.editor.mark(problems[0].severity if problems else "")
        self._context.widgets.set_has_problem(self.editor.focus, bool(problems))
        show_in_grid(self._message, bool(problems))
        if problems:
            self._message.say(*problem_lines(problems))
        offers = ([problem.fix] if problem.fix else [*problem.choices] for problem in problems)
        self._show_fixes(next((fixes for fixes in offers if fixes), []))
        # An entry added to a list has no base value.
        has_base = self.path == self.setting.path or draft.base_value(self.path) is not None
        is_changed = has_base and draft.is_changed(self.path)
        self._dot.say("•" if is_changed else " ")
        show_in_grid(self._reset, is_changed)

    def commit(self) -> None:
        """Write what was typed to the draft now."""
        if self._has_typed():
            self._label.after_cancel(self._waiting)
            self._waiting = ""
            self._context.draft.set(self.path, self.editor.read())

    def begin_editing(self) -> None:
        """Focus a new, empty row without reporting problems until the editor loses the focus."""
        self._is_new = True
        self.refresh()
        self.take_focus()

    def take_focus(self) -> None:
        """Focus the editor and highlight the label for a moment."""
        self.editor.focus.focus_set()
        self._label.configure(style="Accent.Card.TLabel")
        self._label.after(_FLASH_MS, lambda: self._label.configure(style="Card.TLabel"))

    @property
    def error(self) -> str:
        """Text of the problems shown below the editor."""
        return self._message.text if self._message.winfo_ismapped() else ""

    def _focus_left(self) -> None:
        self.commit()
        if self._is_new:
            self._is_new = False
            self.refresh()
        self._label.after_idle(self._leave)

    def _leave(self) -> None:
        """Report an empty value once the keyboard is at another control of the window."""
        focus = focused(self._label) if self._label.winfo_exists() else None
        if focus is None or focus.winfo_toplevel() != self._label.winfo_toplevel():
            return  # another program, or a dialog
        # The buttons that choose a path belong to the field.
        if not str(focus).startswith(f"{self.editor.widget}."):
            self._context.draft.leave(self.path)

    def _has_typed(self) -> bool:
        """Return whether what was typed is not in the draft yet."""
        if isinstance(self.editor, ParagraphEditor):
            self.editor.settle()
        return bool(self._waiting)

    def _changed(self) -> None:
        if self._waiting:
            self._label.after_cancel(self._waiting)
        self._waiting = self._label.after(CHECK_AFTER_MS, self.commit)

    def _show_fixes(self, fixes: list[Fix]) -> None:
        """Show a button for each fix of a problem, or none."""
        if fixes == self._fixes:
            return
        self._fixes = fixes
        widgets, gap = self._context.widgets, self._context.widgets.px(8)
        if self._fix_line is None:  # created late, because most rows never need it
            line = self._fix_line = widgets.frame(self._parent)
            column = 2 - self._context.is_narrow
            line.grid(row=self.line + 4, column=column, columnspan=3 - self._context.is_narrow)
            line.grid(sticky="w", pady=(widgets.px(2), gap))
            # The stacking order is the Tab order.
            line.lift(self._message)
        while len(self._fix_buttons) < len(fixes):
            index = len(self._fix_buttons)
            do, name = partial(self._apply_fix, index), f"fix {self.path} {index or ''}".rstrip()
            button = widgets.button(self._fix_line, "", do, name=name)
            # Three in a line would be wider than the page.
            row, column = divmod(index, _FIXES_IN_ROW)
            above = gap if row else 0
            button.widget.grid(row=row, column=column, sticky="w", padx=(0, gap), pady=(above, 0))
            self._fix_buttons.append(button)
        for index, button in enumerate(self._fix_buttons):
            show_in_grid(button.widget, index < len(fixes))
            if index < len(fixes):
                button.set_text(fix_label(fixes[index], self.path))
        show_in_grid(self._fix_line, bool(fixes))

    def _apply_fix(self, index: int) -> None:
        if index < len(self._fixes):
            fix = self._fixes[index]
            self.editor.focus.focus_set()  # the button disappears and must not keep the focus
            self._context.draft.apply(fix)

    def _reset_value(self) -> None:
        self.editor.focus.focus_set()
        self._context.draft.reset(self.path)

    def _reset_tooltip(self) -> str:
        base = display_text(self._context.draft.base_value(self.path), self.setting) or "nothing"
        return f"Reset to {base}"
