"""What the guided start has filled in, the forecast, and Start."""

import tkinter as tk
from functools import partial
from tkinter import ttk

from onetrainer.messages.formatting import counted
from ui.context import Context
from ui.messages.memory import duration_text, failure_text, verdict
from ui.messages.problems import capitalized, problem_text
from ui.model.amounts import amount_text
from ui.model.draft import Draft
from ui.model.form_fields import MEMORY_PAGE, find_setting
from ui.pages.start.choices import Choices
from ui.widgets.placing import show, toned, while_visible
from ui.widgets.widgets import Label

_LABEL = 120
_FROM_LABEL = 230
_READY = "Everything is filled in. Start, or look at any of it first."
_WRONG = "Nearly everything is filled in. What is red is to be put right before the start."
_NAMED = 3


class ReadyStep:
    """A line for each of the most important settings, which leads to it in the form."""

    def __init__(self, context: Context, parent: tk.Misc, choices: Choices) -> None:
        self._context = context
        self._choices = choices
        widgets, px = context.widgets, context.widgets.px
        self.outer: tk.Widget = widgets.frame(parent)
        self.entries: tuple[ttk.Entry, ...] = ()
        self._lead = widgets.label(self.outer, _READY, wrap=640)
        self._lead.pack(anchor="w", pady=(0, px(8)))
        widgets.name(self._lead, "start lead")
        self._notes = widgets.frame(self.outer)
        self._problems = widgets.label(self._notes, style="SmallWarning", wrap=640)
        self._problems.pack(anchor="w")
        widgets.name(self._problems, "start problems")
        self._path = ""  # of the first of them that names a setting
        self._to_setting = widgets.button(
            self._notes, "", self._go_to_setting, name="start problem"
        )
        self._lines = widgets.frame(self.outer)
        self._lines.grid_columnconfigure(0, minsize=px(_LABEL))
        self._lines.grid_columnconfigure(1, weight=1)
        self._lines.pack(fill="x")
        self._values = {
            path: self._add_line(row, label, path)
            for row, (path, label) in enumerate(
                (
                    ("data.folder", "Images"),
                    ("model.path", "Base model"),
                    ("method.kind", "Method"),
                    ("training.steps", "Length"),
                    ("sampling.prompts", "Sample prompts"),
                    ("output.name", "Result"),
                )
            )
        }
        self._memory = widgets.label(self.outer, style="Heading", wrap=640)
        self._time = widgets.label(self.outer, style="Dim", wrap=640)
        widgets.name(self._memory, "start forecast")
        self._memory.pack(anchor="w", pady=(px(14), 0))
        self._time.pack(anchor="w", pady=(px(2), 0))
        self._lower = widgets.button(
            self.outer,
            "Ways to lower it",
            lambda: context.act.show_page(MEMORY_PAGE),
            name="start lower",
        )
        self._texts = {"data.folder": self._images_text, "training.steps": self._length_text}
        context.forecasts.listen(while_visible(self.outer, self._show_forecast))
        context.preview.query.listen(while_visible(self.outer, self.refresh))

    def refresh(self) -> None:
        """Show the current draft."""
        draft = self._context.draft
        for path, label in self._values.items():
            problem = draft.problem(path)
            is_wrong = problem is not None and problem.severity != "warning"
            text = problem.what if problem is not None and is_wrong else ""
            if not text and path in self._texts:
                text = self._texts[path]()
            label.say(text or _text(draft, self._choices, path), "Danger" if is_wrong else "")
        self._show_problems()
        self._show_forecast()

    def _show_problems(self) -> None:
        """Say whether it can start like this, and what is worth a look before."""
        draft = self._context.draft
        warnings = [one for one in draft.problems if one.severity == "warning"]
        # Those of a line stand there.
        errors = [
            one
            for one in draft.problems
            if one.severity != "warning" and one.path not in self._values
        ]
        lead = _READY
        if warnings:
            these = "this warning" if len(warnings) == 1 else f"these {len(warnings)} warnings"
            lead = f"Everything is filled in, with {these}. Start, or look at any of it first."
        self._lead.say(lead if draft.is_startable else _WRONG)
        found = errors or warnings
        shown = [problem_text(one) for one in found[:_NAMED]]
        more = [f"And {len(found) - _NAMED} more."] if len(found) > _NAMED else []
        self._problems.say("\n".join(shown + more), "SmallDanger" if errors else "SmallWarning")
        self._path = next((one.path for one in found if one.path), "")
        px, setting = self._context.widgets.px, find_setting(self._path)
        self._to_setting.set_text(f"Go to “{setting.ui.label}”" if setting else "Go to the setting")
        show(self._to_setting.widget, bool(self._path), anchor="w", pady=(px(6), 0))
        show(self._notes, bool(found), anchor="w", pady=(0, px(8)), before=self._lines)

    def _go_to_setting(self) -> None:
        self._context.act.jump(self._path)

    def _images_text(self) -> str:
        """Return how many images there are, as cards and run count them; "" if not known yet."""
        data, folder = self._context.preview.get(), self._context.draft.value("data.folder")
        if data is None:
            return ""
        preview, left_out = data.preview, len(data.preview.skipped)
        text = f"{counted(preview.images + (preview.validation or 0), 'image')} in {folder}"
        return f"{text}; {left_out:,} cannot be used" if left_out else text

    def _length_text(self) -> str:
        """Return the length, and what it is for each image; "" if that is not known."""
        # Imported late to keep the start of the window fast.
        from onetrainer.guide.length import length_reason

        config, data = self._context.draft.valid_config(), self._context.preview.get()
        if config is None or data is None or not data.preview.images:
            return ""
        section, images = config.training, data.preview.images
        if not isinstance(section.steps, int):
            return ""
        at_once = section.batch_size * section.accumulation
        reason = length_reason(section.steps, images=images, at_once=at_once)
        return f"{amount_text(section.steps)}: {reason}"

    def commit(self) -> None:
        """Do nothing: nothing is typed here."""

    @property
    def is_working(self) -> bool:
        """Whether something is being found out: nothing here."""
        return False

    def blocked_reason(self) -> str:
        """Return nothing: the form can always be shown."""
        return ""

    def take_focus(self) -> None:
        """Leave the keyboard to Start, which the page shows next to this."""

    def _add_line(self, row: int, label: str, path: str) -> Label:
        widgets = self._context.widgets
        pad = widgets.px(3)
        widgets.label(self._lines, label, style="Dim").grid(
            row=row, column=0, sticky="nw", pady=pad
        )
        value = widgets.label(self._lines, wrap=420)
        value.inset = widgets.px(_FROM_LABEL)
        widgets.name(value, f"start value {path}")
        value.grid(row=row, column=1, sticky="nw", pady=pad)
        change = ttk.Button(self._lines, text="Change", style="QuietCard.TButton")
        change.configure(command=partial(self._context.act.jump, path))
        change.grid(row=row, column=2, sticky="ne")
        widgets.name(change, f"start change {path}")
        return value

    def _show_forecast(self) -> None:
        forecasts = self._context.forecasts
        forecast = forecasts.answer
        if forecasts.is_working and (forecast is None or forecasts.is_outdated):
            activity = capitalized(forecasts.activity or "estimating memory and time")
            self._memory.say(f"{activity} …", "Dim")
            self._time.say("")
        elif forecast is not None:
            summary = verdict(forecast)
            self._memory.say(f"{summary.text} memory", toned(summary.tone, "Heading"))
            self._time.say(duration_text(forecast))
            is_much = summary.tone in ("danger", "warning")
            pad = (self._context.widgets.px(8), 0)
            show(self._lower.widget, is_much, anchor="w", pady=pad)
        elif forecasts.failed is not None:
            self._memory.say(failure_text(forecasts.failed), "SmallDanger")
            self._time.say("")


def _text(draft: Draft, choices: Choices, path: str) -> str:
    value, applied = draft.value(path), choices.applied
    match path:
        case "data.folder" if applied is not None:
            return f"{counted(applied.images.images, 'image')} in {value}"
        case "method.kind":
            aim = f"{applied.aim.title}: " if applied is not None else ""
            return f"{aim}preset {draft.origin.name}"
        case "training.steps":
            return amount_text(value) or f"{value} steps"
        case "sampling.prompts" if isinstance(value, list):
            return "\n".join(str(entry.get("prompt", "")) for entry in value)
        case _:
            return str(value)
