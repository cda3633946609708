"""Details of the selected preset: what it needs, what it would change, and the user's notes."""

import tkinter as tk
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from tkinter import ttk

from onetrainer.errors import UserError
from onetrainer.messages.durations import format_duration
from onetrainer.messages.formatting import counted
from onetrainer.messages.memory import format_memory
from ui.background.preset_forecasts import PresetForecasts
from ui.messages.memory import failure_text
from ui.model.preset_changes import SettingChange
from ui.model.preset_rows import PresetRow
from ui.theme.palette import Role
from ui.widgets.placing import place_two, show, wrap_within
from ui.widgets.widgets import Widgets

_LABEL_SHARE = 0.42
_NOTES_LINES = 2
_ROLES: Mapping[str, Role] = {"page": "dim", "label": "text", "old": "dim", "new": "accent"}


class PresetDetails:
    """Card about one preset; place `outer`.

    Args:
        actions: What its buttons do: "apply", "compare", "forecast", "rename", "delete".
        write_notes: Saves the notes of a row.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        actions: Mapping[str, Callable[[], object]],
        write_notes: Callable[[PresetRow, str], None],
    ) -> None:
        self._widgets = widgets
        self._write_notes = write_notes
        self._row: PresetRow | None = None
        self._saved_notes = ""
        self.outer, box = widgets.card(parent)
        px, button = widgets.px, widgets.button
        inner, self._changes = widgets.frame(box), widgets.frame(box)
        self._facts = inner
        self._name = widgets.label(inner, style="Heading")
        self._about = widgets.label(inner, style="Dim")
        self._needs = widgets.label(inner, style="Small")
        self._name.pack(anchor="w")
        self._about.pack(anchor="w", pady=(px(2), 0))
        self._needs.pack(anchor="w", pady=(px(6), 0))
        line = widgets.frame(inner)
        line.pack(fill="x", pady=(px(10), px(8)))
        self.apply = button(
            line, "Use this preset", actions["apply"], kind="primary", name="apply preset"
        ).describe("Replaces the settings below by those of the preset; Ctrl+Z undoes it (Enter)")
        self._compare = button(line, "Compare", actions["compare"], name="compare preset")
        self._forecast = button(line, "Forecast", actions["forecast"], name="forecast preset")
        self._forecast.describe("Estimates its memory and the time of a step on this computer")
        for each in (self.apply, self._compare, self._forecast):
            each.widget.pack(side="left", padx=(0, px(8)))
        self._own = widgets.frame(inner)
        head = widgets.frame(self._own)
        head.pack(fill="x")
        widgets.label(head, "Notes", style="SmallDim").pack(side="left", anchor="s")
        for label, name in (("Delete", "delete"), ("Rename", "rename")):
            each = button(head, label, actions[name], kind="quiet", name=f"{name} preset")
            each.widget.pack(side="right")
        self._notes = widgets.text_box(self._own, width=20, height=_NOTES_LINES)
        self._notes.bind("<FocusOut>", lambda _: self.commit())
        self._notes.bind("<Tab>", self._leave_notes)
        widgets.name(self._notes, "preset notes")
        self._line = line
        self._notes.pack(fill="x", pady=(px(2), px(8)))
        self._title = widgets.label(self._changes, style="Bold")
        self._title.pack(anchor="w")
        wrap_within(inner, self._name, self._about, self._needs)
        wrap_within(self._changes, self._title)
        self._list = self._make_list(self._changes)

    def arrange(self, *, is_wide: bool) -> None:
        """Put the changes below the rest, or next to it where the card is low and wide."""
        gap = self._widgets.px(20 if is_wide else 4)
        place_two(self._facts, self._changes, is_beside=is_wide, heights=(0, 1), gap=gap)

    def show(
        self, row: PresetRow | None, forecasts: PresetForecasts, *, is_listed: bool = True
    ) -> None:
        """Show a row; None if there is none. is_listed: Whether the presets have been read."""
        is_other = (row and row.path) != (self._row and self._row.path)
        if is_other:
            self.commit()
        self._row = row
        is_usable = row is not None and not row.problem
        reason = "" if is_usable else "Choose a preset that can be read first."
        for button in (self.apply, self._compare):
            button.enable(reason)
        self._forecast.enable(self._forecast_blocked_reason(forecasts))
        is_making = bool(row and row.digest and row.digest == forecasts.digest)
        self._forecast.set_text("Stop" if is_making else "Forecast")
        is_own = row is not None and row.kind == "yours"
        show(self._own, is_own, fill="x", after=self._line)
        if row is None:
            self._name.say("No preset found" if is_listed else "Reading the presets …")
            self._about.say("Try other words, or open a file." if is_listed else "")
            self._needs.say("")
            return
        self._name.say(row.name)
        parts = dict.fromkeys((row.group, row.family, row.method))
        kind = " · ".join(part for part in parts if part)
        self._about.say(f"{kind}\n{row.preset.description or row.problem}".strip())
        self._needs.say(_needs(row, forecasts))
        if is_other:
            self._saved_notes = row.preset.notes
            self._notes.delete("1.0", "end")
            self._notes.insert("1.0", row.preset.notes)

    def show_changes(
        self, title: str, changes: Sequence[SettingChange], *, is_compared: bool
    ) -> None:
        """List changes below a title. is_compared: Whether with another preset."""
        self._title.say(title)
        self._compare.set_text("Compare with mine" if is_compared else "Compare")
        self._compare.describe(
            "Compares with your settings again"
            if is_compared
            else "Holds this preset, to compare whichever is selected next with it"
        )
        box = self._list
        box.configure(state="normal")
        box.delete("1.0", "end")
        for page, inner in groupby(changes, lambda change: change.page):
            box.insert("end", f"{page}\n", "page")
            for change in inner:
                box.insert("end", f"{change.label}\t", "label")
                own = ", your change" if change.is_own else ""
                box.insert("end", change.new, "new")
                box.insert("end", f"  (was {change.old}{own})\n", "old")
        box.configure(state="disabled")

    def commit(self) -> None:
        """Save notes that were changed."""
        notes = self._notes.get("1.0", "end").strip()
        if self._row is not None and self._row.kind == "yours" and notes != self._saved_notes:
            self._saved_notes = notes
            self._write_notes(self._row, notes)

    def repaint(self) -> None:
        """Update the colors to the theme."""
        for tag, role in _ROLES.items():
            self._list.tag_configure(tag, foreground=self._widgets.theme.palette[role])

    def _forecast_blocked_reason(self, forecasts: PresetForecasts) -> str:
        row = self._row
        if row is None or not row.digest:
            return "It has no settings that can be read yet."
        known = forecasts.known.get(row.digest)
        return "It is forecast already, for this computer." if known and known.device else ""

    def _make_list(self, parent: ttk.Frame) -> tk.Text:
        widgets = self._widgets
        frame = widgets.frame(parent)
        frame.pack(fill="both", expand=True, pady=(widgets.px(4), 0))
        box = tk.Text(
            frame, width=10, height=4, wrap="word", font="OneTrainerSmall", cursor="arrow"
        )
        box.configure(relief="flat", borderwidth=0, highlightthickness=1, state="disabled")
        box.configure(spacing1=widgets.px(2), takefocus=1)
        widgets.theme.paint(
            box,
            bg="card",
            fg="text",
            highlightcolor="accent",
            highlightbackground="card",
            selectbackground="fill",
            selectforeground="on_fill",
        )
        box.tag_configure("page", font="OneTrainerSmall", spacing1=widgets.px(8))
        widgets.scrollbar_of(frame, box).pack(side="right", fill="y")
        box.pack(side="left", fill="both", expand=True)
        box.bind("<Configure>", self._set_tabs)
        box.bind("<Tab>", lambda event: _focus_next(event.widget))
        widgets.name(box, "preset changes")
        widgets.scroll_by_wheel(box, 2)
        return box

    def _set_tabs(self, event: "tk.Event[tk.Text]") -> None:
        """Align the values, also where a line is wrapped."""
        left = round(event.width * _LABEL_SHARE)
        self._list.configure(tabs=(left,))
        for tag in ("label", "old", "new"):
            self._list.tag_configure(tag, lmargin2=left)

    def _leave_notes(self, event: "tk.Event[tk.Text]") -> str:
        return _focus_next(event.widget)


def _focus_next(widget: tk.Misc) -> str:
    following = widget.tk_focusNext()
    if following is not None:
        following.focus_set()
    return "break"


def changes_title(changes: Sequence[SettingChange], compared_with: str) -> str:
    """Return the title of a list of changes. compared_with: A preset's name; "" for the draft."""
    if compared_with:
        count = counted(len(changes), "setting differs", "settings differ")
        return f"From “{compared_with}” to this one: {count}"
    if not changes:
        return "It would change nothing: these are your settings."
    count = f"It would change {counted(len(changes), 'setting')}"
    own = sum(change.is_own for change in changes)
    return f"{count} ({own} unsaved)" if own else count


def _needs(row: PresetRow, forecasts: PresetForecasts) -> str:
    if row.digest and row.digest == forecasts.digest:
        return "Estimating memory and time …"
    failed: UserError | None = forecasts.failed.get(row.digest)
    if failed is not None:
        return f"No forecast: {failure_text(failed)}"
    known = forecasts.known.get(row.digest)
    if not row.digest:
        return ""
    if known is None:
        return "Memory and time are not forecast yet."
    memory = format_memory(known.peak_bytes)
    time = f", {format_duration(known.seconds)} a step" if known.seconds else ""
    if not known.device:
        text = f"About {memory} on an NVIDIA GPU, with one sample image."
        if time:
            return f"{text} On this computer ({known.timed_on}) about{time[1:]}."
        return f"{text} Measuring this computer …" if forecasts.is_measuring else text
    return f"About {memory}{time} on {known.device}, with one sample image."
