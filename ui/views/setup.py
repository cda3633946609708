"""A page of settings: cards of rows, and beside them the help and what the settings amount to."""

import tkinter as tk
from tkinter import ttk

from onetrainer.config.fields import Setting
from ui.context import Context
from ui.forms.fields import PagePlan, as_words
from ui.forms.form import Form
from ui.forms.row import FormContext
from ui.kit import wrap_in_card
from ui.scroller import Scroller
from ui.switch import Switch
from ui.views.aside import Facts

_COLUMN = 684
_ASIDE = 272
_MARGIN = 28


class SetupPage:
    """Made from its plan: a new setting of the config appears here by itself."""

    def __init__(self, context: Context, parent: tk.Misc, plan: PagePlan) -> None:
        self.name = plan.name
        self._context = context
        kit = context.kit
        self._scroller = Scroller(kit, parent)
        self.outer: tk.Widget = self._scroller.outer
        self._body = self._scroller.inner
        margin = kit.px(_MARGIN)
        self._column = kit.frame(self._body, ground="window")
        self._column.grid(row=0, column=0, sticky="nw", padx=(margin, 0), pady=margin * 3 // 4)
        self._column.grid_columnconfigure(0, minsize=kit.px(_COLUMN))
        self._switch = self._make_head(plan)
        form_context = FormContext(kit, context.draft, self._show_help)
        self.form = Form(form_context, self._column, plan.groups, line=1)
        self.form.with_advanced = plan.name in context.remembered.advanced
        self._aside = kit.frame(self._body, ground="window")
        kit.name(self._aside, f"aside {plan.name}")
        self._help = HelpCard(context, self._aside)
        self._facts = Facts(context, self._aside, plan.name)
        self._is_wide: bool | None = None
        self._scroller.canvas.bind("<Configure>", self._arrange, add="+")
        if self.form.with_advanced:
            self._switch.show(True)

    def refresh(self) -> None:
        """Shows the draft."""
        self.form.refresh()
        self._facts.refresh()
        hidden = self.form.hidden
        words = (
            "Advanced settings"
            if self.form.with_advanced or not hidden
            else (f"{hidden} advanced setting{'s' if hidden != 1 else ''}")
        )
        self._switch.say(words)

    def reveal(self, path: str) -> None:
        """Goes to a setting."""
        row = self.form.reveal(path)
        if row is not None:
            self._scroller.show(row.editor.focus)
            row.take_focus()

    def commit(self) -> None:
        """Hands what was typed to the draft."""
        self.form.commit()

    def _make_head(self, plan: PagePlan) -> Switch:
        kit = self._context.kit
        head = kit.frame(self._column, ground="window")
        head.grid(row=0, column=0, sticky="ew", pady=(0, kit.px(14)))
        kit.label(head, plan.title, style="Title", ground="window").pack(anchor="w")
        kit.label(head, plan.lead, style="Dim", ground="window").pack(anchor="w")
        switch = kit.switch(head, self._toggle_advanced, text="Advanced settings", ground="window")
        kit.name(switch.widget, f"advanced {plan.name}")
        has_advanced = any(
            setting.ui.level == "advanced" for group in plan.groups for setting in _deep(group)
        )
        if has_advanced:
            switch.widget.place(relx=1.0, rely=1.0, anchor="se", y=-2)
        return switch

    def _toggle_advanced(self) -> None:
        is_on = self._switch.is_on
        self.form.with_advanced = is_on
        known = self._context.remembered.advanced
        if is_on and self.name not in known:
            known.append(self.name)
        elif not is_on and self.name in known:
            known.remove(self.name)
        self._context.act.remember_soon()
        self.refresh()

    def _show_help(self, setting: Setting, path: str) -> None:
        self._help.show(setting, path)
        row = self.form.row(path)
        if row is not None:
            self._scroller.show(row.editor.focus)

    def _arrange(self, event: "tk.Event[tk.Misc]") -> None:
        kit = self._context.kit
        margin = kit.px(_MARGIN)
        room = event.width - 2 * margin
        column, aside = kit.px(_COLUMN), kit.px(_ASIDE)
        is_wide = room >= column + margin + aside
        self._column.grid_columnconfigure(0, minsize=min(column, room))
        width = min(aside * 3 // 2, room - column - margin) if is_wide else min(column, room)
        self._aside.grid_columnconfigure(0, minsize=width)
        self._help.wrap(width)
        self._facts.wrap(width)
        if is_wide != self._is_wide:
            self._is_wide = is_wide
            if is_wide:
                self._aside.grid(row=0, column=1, sticky="n", padx=(margin, 0), pady=kit.px(87))
            else:
                self._aside.grid(row=1, column=0, sticky="nw", padx=(margin, 0), pady=0)


class HelpCard:
    """What the setting with the keyboard means."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        kit = context.kit
        self._kit = kit
        outer, inner = kit.card(parent)
        outer.grid(row=0, column=0, sticky="ew", pady=(0, kit.px(14)))
        self._title: ttk.Label = kit.label(inner, "About a setting", style="Heading", wrap=236)
        self._title.pack(anchor="w")
        self._text = kit.label(
            inner,
            "Click into a setting to read here what it does.",
            wrap=236,
        )
        self._text.pack(anchor="w", pady=(kit.px(6), kit.px(6)))
        self._facts = kit.label(inner, style="SmallDim", wrap=236)
        self._facts.pack(anchor="w")

    def wrap(self, width: int) -> None:
        """Fits the words into a card of a width in pixels."""
        wrap_in_card(self._kit, width, self._title, self._text, self._facts)

    def show(self, setting: Setting, path: str) -> None:
        """Explains one setting."""
        self._title.configure(text=setting.ui.label)
        self._text.configure(text=setting.help_in_words)
        lines = []
        if setting.kind in ("integer", "number"):
            lines.append(f"Takes {setting.expected}.")
        if setting.path == path:
            default = as_words(setting.default, setting)
            lines.append(f"Default: {default}" if default else "Default: nothing")
        lines.append(f"Key: {path}")
        self._facts.configure(text="\n".join(lines))


def _deep(group: object) -> list[Setting]:
    from onetrainer.config.fields import settings
    from ui.forms.fields import Group

    found: list[Setting] = []
    if isinstance(group, Group):
        for setting in group.settings:
            found.append(setting)
            if setting.item is not None:
                found += settings(setting.item)
    return found
