"""Page of settings: cards of rows, with help, summary and forecast next to them."""

import tkinter as tk
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from onetrainer.config.fields import Setting
from onetrainer.messages.formatting import counted
from ui.context import Context, View
from ui.forms.form import Form
from ui.forms.row import FormContext
from ui.model.form_fields import CardName, PagePlan, settings_on
from ui.model.variants import entries_of
from ui.pages.settings.amounts import note_of
from ui.pages.settings.help_below import HelpBelow
from ui.pages.settings.help_card import HelpCard
from ui.pages.settings.next_button import NextButton
from ui.pages.settings.noise_plot import (
    SECTION,
    WEIGHTING,
    WEIGHTING_INPUTS,
    WIDTH,
    noise_curve,
    weight_curve,
)
from ui.pages.settings.prompt_proposal import LABEL, PROMPTS, PromptProposal
from ui.pages.settings.sticky_column import StickyColumn
from ui.pages.settings.summary_card import SummaryCard
from ui.widgets.placing import while_visible
from ui.widgets.scroller import Scroller
from ui.widgets.switch import Switch
from ui.widgets.widgets import focused

if TYPE_CHECKING:
    from ui.pages.settings.cost_card import CostCard
    from ui.pages.settings.memory_card import MemoryCard
    from ui.pages.settings.objective_card import ObjectiveCard
    from ui.pages.settings.small_plot import SmallPlot

_COLUMN, _MAX_COLUMN = 684, 960
_MAX_COLUMNS = 3
_SIDEBAR = 272
_MARGIN, _GAP = 28, 14
_BELOW_AFTER_MS = 150


class SettingsPage(View):
    """Page built from its plan, so that a new config setting appears by itself.

    Cards that some pages have are imported with the first of these.
    """

    def __init__(self, context: Context, parent: tk.Misc, *, plan: PagePlan) -> None:
        self.name = plan.name
        self._context = context
        widgets = context.widgets
        self._scroller = Scroller(widgets, parent)
        self.outer: tk.Widget = self._scroller.outer
        self._body = self._scroller.inner
        margin = widgets.px(_MARGIN)
        self._column = widgets.frame(self._body, ground="window")
        self._column.grid(row=0, column=0, sticky="nw", padx=(margin, 0), pady=margin * 3 // 4)
        self._has_advanced = _has_advanced(plan)
        self._switch = self._make_head(plan)
        plots = {SECTION: self._make_plot, WEIGHTING: self._make_weight_plot}
        form_context = FormContext(
            widgets,
            context.draft,
            self._show_help,
            plots,
            self._scroller.show,
            partial(note_of, context),
            context.act.choose_path,
            {PROMPTS: (LABEL, PromptProposal(context).propose)},
        )
        self._objective = self._make_objective(plan)
        self.form = Form(form_context, self._column, plan, line=2)
        context.forecasts.listen(while_visible(self.outer, self.refresh))
        self._previewed: object = None
        context.preview.query.listen(while_visible(self.outer, self._show_preview))
        self.form.with_advanced = plan.name in context.window_state.advanced
        self._sticky = StickyColumn(widgets, self._scroller, name=f"sticky column {plan.name}")
        self._help = HelpCard(widgets, context.draft, self._sticky.top, name=f"help {plan.name}")
        self._below = HelpBelow(
            widgets, context.draft, self._column, name=f"help below {plan.name}"
        )
        self._below_timer = ""
        self._next = NextButton(context, self._column, plan.name)
        self._cards = [self._make_card(name, line) for line, name in enumerate(plan.cards, start=1)]
        self._is_wide: bool | None = None
        self._width, self._card_width = 0, 0
        self._laid_out: tuple[object, ...] = ()
        self._shown_problems: object = None
        self._openings = context.draft.load_count
        self._scroller.canvas.bind("<Configure>", self._arrange, add="+")
        if self.form.with_advanced:
            self._switch.show(True)

    def prepare(self) -> Iterator[None]:
        """Create the rows that the first visit would wait for, a card at a time."""
        column, _ = self._columns_in(self.outer.master.winfo_width(), count=1)
        yield from self.form.prepare(column)

    def refresh(self) -> None:
        """Show the current draft."""
        focused_widget = focused(self._column)
        anchor = (
            focused_widget
            if focused_widget is not None and self._scroller.can_see(focused_widget)
            else None
        )
        before = anchor.winfo_rooty() if anchor is not None else 0
        self.form.refresh()
        if self._help.path and self.form.row(self._help.path) is None:
            self._help.clear()
        self._help.refresh()
        below = self.form.row(self._below.path) if self._below.path else None
        if below is None or not below.is_shown:
            self._below.hide()
        else:
            self._below.show(below.setting, below.path, below, self._card_width)
        if self._objective is not None:
            self._objective.refresh()
        for card in self._cards:
            card.refresh()
        self._next.refresh()
        hidden = self.form.hidden
        is_all = self.form.with_advanced or not hidden
        label = "Advanced settings" if is_all else counted(hidden, "advanced setting")
        self._switch.say(label)
        self._update_switch()
        self._lay_out()
        self._settle(anchor, before)

    def reveal(self, path: str) -> bool:
        """Scroll to a setting and focus it; return whether the page shows its help as well."""
        row, setting = self.form.reveal(path), self.form.list_card(path)
        if row is not None:
            self._scroller.show(row.editor.focus, *row.below)
            row.take_focus()
        elif setting is not None:
            self._scroller.show(setting.outer)
            setting.add_button.take_focus()
        return row is not None

    def commit(self) -> None:
        """Write everything typed to the draft."""
        self.form.commit()

    def _show_preview(self) -> None:
        """Show the notes of amounts that a preview tells; its progress concerns its card alone."""
        answer = self._context.preview.query.answer
        if answer is not self._previewed:
            self._previewed = answer
            self.form.refresh()

    def _settle(self, anchor: tk.Misc | None, before: int) -> None:
        """Keep the focused widget in place on the screen; scroll to the top for another preset."""
        draft = self._context.draft
        if self._openings != draft.load_count:
            self._openings = draft.load_count
            self._scroller.to_top()
            anchor = None
        # Each change makes a new list of problems: the same list means no change.
        if self._shown_problems is not draft.problems:
            self._shown_problems = draft.problems
            self._scroller.settle(anchor, before)

    def _make_head(self, plan: PagePlan) -> Switch:
        widgets = self._context.widgets
        head, _, _ = widgets.heading(self._column, plan.title, plan.lead)
        head.grid(row=0, column=0, columnspan=_MAX_COLUMNS, sticky="ew", pady=(0, widgets.px(14)))
        switch = widgets.switch(
            head, self._toggle_advanced, text="Advanced settings", ground="window"
        )
        widgets.name(switch.widget, f"advanced {plan.name}")
        return switch

    def _make_objective(self, plan: PagePlan) -> "ObjectiveCard | None":
        if not plan.objective:
            return None
        from ui.pages.settings.objective_card import ObjectiveCard

        return ObjectiveCard(self._context, self._column, plan.objective, line=1)

    def _make_card(self, card: CardName, line: int) -> "SummaryCard | MemoryCard | CostCard":
        context, column = self._context, self._sticky.frame
        match card:
            case "memory" | "verdict":
                from ui.pages.settings.memory_card import MemoryCard

                is_full = card == "memory"
                return MemoryCard(context, column, self.name, line=line, is_full=is_full)
            case "cost":
                from ui.pages.settings.cost_card import CostCard

                return CostCard(context, column, self.name, line=line)
            case _:
                return SummaryCard(context, column, card, line=line)

    def _make_plot(self, card: tk.Misc) -> "SmallPlot":
        from ui.pages.settings.small_plot import SmallPlot

        widgets, draft = self._context.widgets, self._context.draft
        inputs, curve = partial(draft.value, SECTION), partial(noise_curve, draft)
        return SmallPlot(widgets, card, inputs, curve, name="plot of the noise", width=WIDTH)

    def _make_weight_plot(self, card: tk.Misc) -> "SmallPlot":
        from ui.pages.settings.small_plot import SmallPlot

        widgets, draft = self._context.widgets, self._context.draft
        curve = partial(weight_curve, draft)

        def inputs() -> object:
            return [draft.value(path) for path in WEIGHTING_INPUTS]

        return SmallPlot(widgets, card, inputs, curve, name="plot of the weights", width=WIDTH)

    def _update_switch(self) -> None:
        """Show the switch only if the page has advanced settings."""
        if self._has_advanced and self.form.has_cards:
            self._switch.widget.place(relx=1.0, rely=1.0, anchor="se", y=-2)
        else:
            self._switch.widget.place_forget()

    def _toggle_advanced(self) -> None:
        is_on = self._switch.is_on
        self.form.with_advanced = is_on
        known = self._context.window_state.advanced
        if is_on and self.name not in known:
            known.append(self.name)
        elif not is_on and self.name in known:
            known.remove(self.name)
        self._context.act.save_state_soon()
        self._shown_problems = None
        self.refresh()

    def _show_help(self, setting: Setting, path: str) -> None:
        self._help.show(setting, path)
        row = self.form.row(path)
        if row is not None:
            self._scroller.show(row.editor.focus)
        if self._is_wide is False:
            if self._below_timer:
                self.outer.after_cancel(self._below_timer)
            # Nothing moves below the pointer while it clicks.
            self._below_timer = self.outer.after(_BELOW_AFTER_MS, self._show_below)

    def _show_below(self) -> None:
        """Show the help below the row that has the keyboard, which stays where it is."""
        self._below_timer = ""
        row = self.form.row(self._help.path) if self._help.path else None
        # The list of a combo box has the keyboard itself, and must stay below its field.
        if row is None or self._is_wide or focused(self._column) is not row.editor.focus:
            return
        self._scroller.canvas.update_idletasks()  # it may just have been scrolled
        before, is_new = row.editor.focus.winfo_rooty(), self._below.path != row.path
        self._below.show(row.setting, row.path, row, self._card_width)
        self._scroller.settle(row.editor.focus, before)
        if is_new:
            self._scroller.show(row.editor.focus, *row.below, self._below.frame)

    def _is_wide_enough(self, width: int) -> bool:
        return width >= self._context.widgets.px(_COLUMN + _SIDEBAR + 3 * _MARGIN)

    def _arrange(self, event: "tk.Event[tk.Misc]") -> None:
        self._width = event.width
        self._lay_out()

    def _columns_in(self, page_width: int, *, count: int) -> tuple[int, int]:
        """Return the width and the number of columns for so many cards, in pixels."""
        px = self._context.widgets.px
        gap, least, room = px(_GAP), px(_COLUMN), page_width - 2 * px(_MARGIN)
        is_wide = self._is_wide_enough(page_width)
        free = room - px(_SIDEBAR) * 3 // 2 - px(_MARGIN) if is_wide else room
        columns = max(1, min(_MAX_COLUMNS, count, (free + gap) // (least + gap)))
        column = min(px(_MAX_COLUMN), max(least, (free + gap) // columns - gap), room)
        return column, columns

    def _lay_out(self) -> None:
        """Divide the width between the settings, in columns where there is room, and the cards."""
        if not self._width:
            return
        widgets = self._context.widgets
        margin, gap = widgets.px(_MARGIN), widgets.px(_GAP)
        is_wide = self._is_wide_enough(self._width)
        column, columns = self._columns_in(self._width, count=self.form.shown_count)
        rest = self._width - 2 * margin - (columns * (column + gap) - gap) - margin
        width = min(widgets.px(_SIDEBAR) * 3 // 2, rest) if is_wide else column
        if (columns, column, width, is_wide) == self._laid_out:
            return
        self._laid_out = (columns, column, width, is_wide)
        self._card_width = column
        self.form.set_width(column)
        for index in range(_MAX_COLUMNS):
            is_used = index < columns
            self._column.grid_columnconfigure(
                index, minsize=column + gap * (index > 0) if is_used else 0
            )
        self.form.set_columns(columns)
        if self._objective is not None:
            self._objective.set_width(column)
        for box in (self._sticky.top, self._sticky.frame):
            widgets.wrap_in_card(box, width)
        self._help.break_lines()
        if is_wide != self._is_wide:
            self._is_wide = is_wide
            self._below.hide()
            space = self._sticky.space
            if is_wide:
                space.grid(row=0, column=1, sticky="n", padx=(margin, 0), pady=widgets.px(87))
            else:
                space.grid(row=1, column=0, sticky="nw", padx=(margin, 0), pady=0)
        self._sticky.arrange(width, stays=is_wide)


def _has_advanced(plan: PagePlan) -> bool:
    """Return whether a page has advanced settings, including those in lists."""
    found = (
        setting for setting in settings_on(plan) for setting in (setting, *entries_of(setting))
    )
    return any(setting.ui.level == "advanced" for setting in found)
