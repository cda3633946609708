"""Card with the help of the focused setting."""

import tkinter as tk

from onetrainer.config.base.section import source_of, without_source
from onetrainer.config.fields import Setting
from ui.messages.line_breaks import break_at_dots
from ui.messages.problems import join_list
from ui.model.draft import Draft
from ui.model.form_fields import display_text, find_setting
from ui.model.variants import is_variant_choice, section_at, section_of
from ui.model.visible_settings import ANY, sibling_path
from ui.widgets.widgets import Widgets

_WRAP = 236


class HelpCard:
    """Card with the help of a setting. path: the setting that is explained; "" for none."""

    def __init__(self, widgets: Widgets, draft: Draft, parent: tk.Misc, *, name: str) -> None:
        self._widgets = widgets
        self._draft = draft
        outer, inner = widgets.card(parent)
        outer.pack(fill="x")
        widgets.name(outer, name)
        self._title = widgets.label(inner, style="Heading", wrap=_WRAP)
        self._title.pack(anchor="w")
        self._text = widgets.label(inner, wrap=_WRAP)
        self._text.pack(anchor="w", pady=(widgets.px(6), widgets.px(6)))
        self._facts = widgets.label(inner, style="SmallDim", wrap=_WRAP)
        self._facts.pack(anchor="w")
        self.clear()

    def clear(self) -> None:
        """Show the placeholder text."""
        self.path = self._facts_text = ""
        self._setting: Setting | None = None
        self._title.say("About a setting")
        self._help_text = "Click a setting to see its help here."
        self.break_lines()

    def refresh(self) -> None:
        """Show what is chosen now, if the setting is a choice of a variant."""
        if self._setting is not None and is_variant_choice(self.path):
            self.show(self._setting, self.path)

    def show(self, setting: Setting, path: str) -> None:
        """Show the help of a setting."""
        self.path, self._setting = path, setting
        self._title.say(setting.ui.label)
        self._help_text, self._facts_text = help_and_facts(self._draft, setting, path)
        self.break_lines()

    def break_lines(self) -> None:
        """Break long names to the width of the card."""
        for label, text in ((self._text, self._help_text), (self._facts, self._facts_text)):
            room = int(str(label.cget("wraplength")))
            label.say(break_at_dots(text, room, self._widgets.theme.measure))


def help_and_facts(draft: Draft, setting: Setting, path: str) -> tuple[str, str]:
    """Return the help of a setting, for a choice of a variant with the chosen one's, and facts."""
    chosen, source = _chosen_variant(draft, setting, path)
    lines = []
    if setting.kind in ("integer", "amount", "number"):
        lines.append(f"Accepts {setting.expected}.")
    default_value = draft.default(path) if setting.path == path else setting.default
    default = display_text(default_value, setting)
    lines.append(f"Default: {default}" if default else "Default: empty")
    lines += [
        only_with_text(sibling_path(path, other), values)
        for other, values in setting.ui.only_with.items()
    ]
    lines += [or_with_text(other, values) for other, values in setting.ui.or_with.items()]
    lines.append(f"Key: {path}")
    lines += [f"Source: {text}" for text in (setting.source, source) if text]
    text = f"{setting.help_text}\n\n{chosen}" if chosen else setting.help_text
    return text, "\n".join(lines)


def _chosen_variant(draft: Draft, setting: Setting, path: str) -> tuple[str, str]:
    """Return what the chosen variant is, with its source; "" for other settings."""
    section = section_at(section_of(path), draft.variants)
    if not is_variant_choice(path) or section is None:
        return "", ""
    description = " ".join((section.__doc__ or "").split())
    name = display_text(draft.value(path), setting)
    return f"{name}: {without_source(description)}", source_of(description)


def only_with_text(path: str, values: tuple[str, ...]) -> str:
    """Format a dependency: "Has an effect only with Method LoRA, DoRA and OFT"."""
    other = find_setting(path)
    if other is None:
        return ""
    if values == ANY:
        state = "on" if other.kind == "yes-no" else "set"
        return f"Has an effect only while “{other.ui.label}” is {state}"
    if values == ("0",) and other.ui.zero:
        return f"Has an effect only while “{other.ui.label}” is 0 ({other.ui.zero})"
    choices = join_list([other.choice_label(value) for value in values])
    return f"Has an effect only with {other.ui.label} {choices}"


def or_with_text(path: str, values: tuple[str, ...]) -> str:
    """Format an alternative: "Or with Masks image files in one of “More folders”"."""
    name, _, __ = path.partition(".*.")
    entries, other = find_setting(name), find_setting(path)
    if entries is None or other is None:
        return ""
    labels = join_list([other.choice_label(value) for value in values])
    return f"Or with {other.ui.label} {labels} in one of “{entries.ui.label}”"
