"""One setting on a page: its label, its editor, and what is wrong with it in words."""

import tkinter as tk
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from tkinter import ttk
from typing import Protocol

from onetrainer.config.fields import Setting
from onetrainer.errors import Fix, Problem
from ui.forms.editors import EntryEditor, explain, make_editor
from ui.messages.problems import fix_words, in_words
from ui.model.draft import Draft
from ui.model.form_fields import as_words, counted_in
from ui.widgets.tooltip import Tooltip
from ui.widgets.widgets import Button, Kit

CHECK_AFTER_MS = 150
LABEL_WIDTH = 206
LINES = 5
_FIXES_BESIDE = 2
_FLASH_MS = 1200
_LEAD_WRAP = 620


class Plot(Protocol):
    """A drawing of what the settings of a card make."""

    widget: tk.Widget

    def draw(self) -> None:
        """Draws what the draft says now."""


@dataclass(frozen=True)
class FormContext:
    """What every row needs.

    on_focus: told of the setting whose editor has the keyboard. plots: for the cards of some
    sections, by their paths, what makes the drawing at their foot. show: lets a widget be seen
    where the page is scrolled.
    """

    kit: Kit
    draft: Draft
    on_focus: Callable[[Setting, str], None]
    plots: Mapping[str, Callable[[tk.Misc], Plot]] = field(default_factory=dict)
    show: Callable[[tk.Misc], None] = lambda _: None


class Row:
    """A setting's widgets in five lines of a grid, most of them empty most of the time.

    From above: a sentence over its group, the row itself, the editor where it stands below its
    label, what is wrong, and the button that puts it right.
    """

    def __init__(
        self, context: FormContext, parent: tk.Misc, setting: Setting, path: str = ""
    ) -> None:
        self.setting = setting
        self.line = -1
        self.path = path or setting.path
        self._context = context
        self._waiting = ""
        self._is_new = False
        self._fixes: list[Fix] = []
        self._fix_buttons: list[Button] = []
        self._fix_line: ttk.Frame | None = None
        kit = context.kit
        self._lead: ttk.Label | None = None
        if setting.ui.lead:
            self._lead = kit.label(parent, setting.ui.lead, style="SmallDim", wrap=_LEAD_WRAP)
        self._parent = parent
        self._dot = kit.label(parent, style="Accent")
        self._label = kit.label(parent, setting.ui.label)
        self.editor = make_editor(kit, parent, setting, self._changed)
        self._unit_path = counted_in(self.path)
        self._reset = ttk.Button(
            parent, text="↺", width=2, style="QuietCard.TButton", command=self._go_back
        )
        self._message: ttk.Label = kit.label(parent, wrap=420)
        Tooltip(self._reset, kit.theme, self._reset_words)
        for widget in (self._label, self.editor.focus):
            explain(kit, widget, setting)
        self.editor.focus.bind("<FocusIn>", lambda _: context.on_focus(setting, self.path), add="+")
        self.editor.focus.bind("<FocusOut>", lambda _: self._left(), add="+")
        self.editor.focus.bind("<Return>", lambda _: self.commit(), add="+")
        kit.name(self.editor.focus, self.path)
        kit.name(self._reset, f"reset {self.path}")
        self._names = {self.path: self.editor.focus, f"reset {self.path}": self._reset}
        if setting.ui.is_path:  # whose editor has buttons with names of their own
            self._names |= self._names_of_buttons()

    def register_names(self) -> None:
        """Goes by its path's names again, after a row for another kind has gone by them."""
        for name, widget in self._names.items():
            self._context.kit.name(widget, name)
        for place, button in enumerate(self._fix_buttons):
            self._context.kit.name_button(button, self._fix_name(place))

    def _names_of_buttons(self) -> dict[str, tk.Misc]:
        """Those within the editor, by the path of this row: entries have settings in common."""
        kit, found = self._context.kit, {}
        for name, widget in kit.named_within(self.editor.widget).items():
            is_editor = widget is self.editor.focus
            own = name if is_editor else name.removesuffix(self.setting.path) + self.path
            if own != name:
                del kit.named[name]
                kit.name(widget, own)
            found[own] = widget
        return found

    def to_front(self) -> None:
        """Makes the Tab key come to it after everything that was made before, or did this."""
        parts = (self._lead, self._dot, self._label, self.editor.widget, self._reset)
        for widget in (*parts, self._message, self._fix_line):
            if widget is not None:
                # A canvas has another method of this name, which is about what it shows.
                widget.tk.call("raise", str(widget))

    def retire(self) -> None:
        """Hides the row and forgets what was being typed: its setting is not there any more."""
        if self._waiting:
            self._label.after_cancel(self._waiting)
            self._waiting = ""
        self.hide()

    @property
    def below(self) -> list[tk.Misc]:
        """What is shown below the editor: what is wrong, and the buttons that put it right."""
        parts: tuple[tk.Misc | None, ...] = (self._message, self._fix_line)
        return [part for part in parts if part is not None and part.winfo_manager()]

    @property
    def is_shown(self) -> bool:
        """Whether it has a place on the page now."""
        return bool(self.editor.widget.winfo_manager())

    def place(self, line: int, *, is_stacked: bool = False) -> None:
        """Puts the widgets into the grid, from a line on; they take up to `LINES`."""
        self.line = line
        px = self._context.kit.px
        if self._lead is not None:
            self._lead.grid(row=line, column=0, columnspan=4, sticky="w", pady=(px(14), px(4)))
        if self._fix_line is not None:
            self._fix_line.grid(row=line + 4)
        gap = px(4)
        # Beside several lines of text the label stands next to the first.
        is_tall = self.setting.ui.editor == "text"
        north, above = ("n", gap + px(6)) if is_tall else ("", gap)
        self._dot.grid(row=line + 1, column=0, sticky=f"{north}w", pady=(above, gap))
        if is_stacked:
            self._label.grid(row=line + 1, column=1, columnspan=2, sticky="w", pady=gap)
            self.editor.widget.grid(row=line + 2, column=1, columnspan=2, sticky="ew")
        else:
            self._label.grid(row=line + 1, column=1, sticky=f"{north}w", pady=(above, gap))
            sticky = "ew" if self.editor.is_wide else "w"
            self.editor.widget.grid(row=line + 1, column=2, sticky=sticky, pady=gap)
        self._reset.grid(row=line + 1, column=3, sticky=f"{north}e", padx=(px(4), 0))
        self._message.grid(
            row=line + 3, column=1 if is_stacked else 2, columnspan=2, sticky="w", pady=(0, px(4))
        )
        self.refresh()

    def hide(self) -> None:
        """Takes the widgets out of the grid; they are kept."""
        self._is_new = False
        parts = (self._dot, self._label, self.editor.widget, self._reset, self._message)
        for widget in parts:
            widget.grid_remove()
        self.show_lead(is_shown=False)
        self._offer([])

    def show(self) -> None:
        """Puts the widgets back to where they were."""
        for widget in (self._dot, self._label, self.editor.widget):
            widget.grid()
        self.refresh()

    def show_lead(self, *, is_shown: bool) -> None:
        """Shows or hides the sentence over the row, which is that of its whole group."""
        if self._lead is None:
            return
        if is_shown:
            self._lead.grid()
        else:
            self._lead.grid_remove()

    def refresh(self) -> None:
        """Shows the draft's value and what is wrong with it."""
        draft = self._context.draft
        if not self._waiting:
            self.editor.show(draft.value(self.path))
        if self._unit_path and isinstance(self.editor, EntryEditor):
            self.editor.count_in(str(draft.value(self._unit_path)))
        problems = [] if self._is_new else draft.problems_at(self.path)
        self.editor.mark(problems[0].severity if problems else "")
        self._say(problems)
        offers = ([problem.fix] if problem.fix else [*problem.choices] for problem in problems)
        self._offer(next((fixes for fixes in offers if fixes), []))
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

    def begin(self) -> None:
        """Says nothing of what is wrong until the editor is left: nobody could fill it in yet."""
        self._is_new = True
        self.refresh()
        self.take_focus()

    def take_focus(self) -> None:
        """Gives the editor the keyboard and shows for a moment where it is."""
        self.editor.focus.focus_set()
        self._label.configure(style="Accent.Card.TLabel")
        self._label.after(_FLASH_MS, lambda: self._label.configure(style="Card.TLabel"))

    @property
    def error(self) -> str:
        """The words shown below the editor."""
        return str(self._message.cget("text")) if self._message.winfo_ismapped() else ""

    def _left(self) -> None:
        self.commit()
        if self._is_new:
            self._is_new = False
            self.refresh()

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

    def _offer(self, fixes: list[Fix]) -> None:
        """Shows a button for each change that would put the problem right, or none."""
        if fixes == self._fixes:
            return
        self._fixes = fixes
        if not fixes:
            if self._fix_line is not None:
                self._fix_line.grid_remove()
            return
        line = self._fix_line = self._fix_line or self._make_fix_line()
        while len(self._fix_buttons) < len(fixes):
            self._fix_buttons.append(self._make_fix_button(line, len(self._fix_buttons)))
        gap = self._context.kit.px(8)
        for place, button in enumerate(self._fix_buttons):
            button.widget.grid_remove()
            if place < len(fixes):
                button.set_text(fix_words(fixes[place], self.path))
                # Three beside each other would be wider than the page has room for.
                row, column = divmod(place, _FIXES_BESIDE)
                above = gap if row else 0
                button.widget.grid(
                    row=row, column=column, sticky="w", padx=(0, gap), pady=(above, 0)
                )
        line.grid()

    def _make_fix_line(self) -> ttk.Frame:
        """The line of buttons; made when it is needed first, since most rows never need it."""
        kit = self._context.kit
        line = kit.frame(self._parent)
        line.grid(row=self.line + 4, column=2, sticky="w", pady=(kit.px(2), kit.px(8)))
        # The Tab key goes by this order, and would come here after the rest of the page.
        line.lift(self._message)
        return line

    def _make_fix_button(self, line: ttk.Frame, place: int) -> Button:
        do = partial(self._put_right, place)
        return self._context.kit.button(line, "", do, name=self._fix_name(place))

    def _fix_name(self, place: int) -> str:
        return f"cure {self.path}" + (f" {place}" if place else "")

    def _put_right(self, place: int) -> None:
        if place < len(self._fixes):
            fix = self._fixes[place]
            self.editor.focus.focus_set()  # the button goes, and must not take the keyboard along
            self._context.draft.set(fix.path, fix.value)

    def _go_back(self) -> None:
        self.editor.focus.focus_set()
        self._context.draft.reset(self.path)

    def _reset_words(self) -> str:
        base = as_words(self._context.draft.base_value(self.path), self.setting) or "nothing"
        return f"Back to {base}"


class Placed(Protocol):
    """A setting's place. row: its widgets; None as long as nobody needed them."""

    setting: Setting
    row: Row | None


def restore_tab_order(slots: Iterable[Placed]) -> None:
    """Lets the Tab key visit rows in reading order, whenever they were made."""
    for slot in slots:
        if slot.row is not None:
            slot.row.to_front()


def show_leads(slots: Iterable[Placed], of_card: Row | None = None) -> None:
    """Shows the sentences over those groups of rows of which one is to be seen.

    A group goes on as far as the section of the setting that it begins with. slots: in their
    order. of_card: the row whose sentence stands over the whole card already.
    """
    lead: Row | None = None
    section = ""
    led: list[Row] = []
    slots = list(slots)
    for slot in slots:
        if slot.setting.ui.lead:
            lead, section = slot.row, slot.setting.path.rpartition(".")[0]
        is_inside = slot.setting.path.startswith(f"{section}." if section else "")
        if lead is not None and is_inside and slot.row is not None and slot.row.is_shown:
            led.append(lead)
    for row in (slot.row for slot in slots if slot.row is not None):
        row.show_lead(is_shown=row in led and row is not of_card)
