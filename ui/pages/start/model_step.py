"""Second step: the base model, and what it is."""

import tkinter as tk
from collections.abc import Callable, Sequence
from tkinter import ttk
from typing import TYPE_CHECKING

from onetrainer.families.registry import FAMILY_LABELS
from ui.background.threads import Latest
from ui.context import Context
from ui.messages.dataset import Fact
from ui.models.table import ModelTable
from ui.pages.start.choices import Choices
from ui.pages.start.path_field import PathField
from ui.progress.units import format_bytes
from ui.widgets.fact_rows import FactRows
from ui.widgets.placing import show

if TYPE_CHECKING:
    from onetrainer.guide.base_model import BaseModel

_ROWS = 5
_LEAD = (
    "Choose the model that training starts from: one of the list, a file, a diffusers folder, or "
    "the name of a model on the Hugging Face Hub. Or drop one here."
)


class ModelStep:
    """Choice of the base model, from a list, by a dialog or by its name."""

    def __init__(
        self, context: Context, parent: tk.Misc, choices: Choices, take: Callable[[], None]
    ) -> None:
        self._context = context
        self._choices = choices
        self._looks = Latest(context.widgets.jobs, _look, context.act.refresh)
        widgets, px = context.widgets, context.widgets.px
        self.outer: tk.Widget = widgets.frame(parent)
        widgets.label(self.outer, _LEAD, wrap=640).pack(anchor="w")
        self.field = PathField(
            context,
            self.outer,
            {"model": "File…", "folder": "Folder…"},
            lambda _: context.act.refresh(),
            name="start model",
            browse_from=self._browse_from,
        )
        self.entries = (self.field.entry,)
        self.field.outer.pack(fill="x", pady=(px(10), 0))
        self._problem = widgets.label(self.outer, style="Danger", wrap=640)
        widgets.name(self._problem, "start model problem")
        self._facts = FactRows(widgets, self.outer, label=110, wrap=500)
        self._family_line = widgets.frame(self.outer)
        widgets.label(self._family_line, "Its family").pack(side="left")
        names = list(FAMILY_LABELS.values())
        box = ttk.Combobox(self._family_line, values=names, state="readonly", width=18)
        box.configure(font="OneTrainerBody")
        box.bind("<<ComboboxSelected>>", lambda _: self._choose_family())
        box.pack(side="left", padx=(px(10), 0))
        widgets.name(box, "start family")
        box.set(FAMILY_LABELS.get(choices.family, ""))
        self._family = box
        self._table = ModelTable(context, self.outer, self.field.set, take, rows=_ROWS, fills=True)
        self._table.outer.pack(fill="x", pady=(px(14), 0))

    def refresh(self) -> None:
        """Show what the model is."""
        text, px = self.field.reported, self._context.widgets.px
        self._table.show_chosen(self.field.text)
        model = self._choices.model = self._looks.get(text or None)
        problem = model.problem if model is not None else ""
        self._problem.say(problem)
        above = {"anchor": "w", "pady": (px(8), 0), "before": self._table.outer}
        show(self._problem, bool(problem), **above)
        facts = _facts(self._choices)
        self._facts.show(facts)
        show(self._facts.outer, bool(facts), **above)
        show(self._family_line, bool(model and model.is_remote and not model.family), **above)

    def commit(self) -> None:
        """Take what is being typed."""
        self.field.commit()

    @property
    def is_working(self) -> bool:
        """Whether the model is still being read."""
        return bool(self.field.text) and (self.field.is_typed or self._choices.model is None)

    def blocked_reason(self) -> str:
        """Return why the next step cannot be shown yet."""
        return "Reading the model …" if self.is_working else self._choices.model_reason()

    def take_focus(self) -> None:
        """Take the keyboard."""
        self.field.entry.focus_set()

    def _browse_from(self) -> str:
        """Return where dialogs begin: a wrong answer, and a name on the Hub, lead to no models."""
        model = self._choices.model
        is_here = model is not None and not model.problem and not model.is_remote
        return self.field.text if is_here else self._context.window_state.folder_of_models()

    def _choose_family(self) -> None:
        self._family.selection_clear()
        labels = {label: name for name, label in FAMILY_LABELS.items()}
        self._choices.family = labels[self._family.get()]
        self._context.act.refresh()


def _look(text: str) -> "BaseModel":
    # Imported late to keep the start of the window fast.
    from onetrainer.guide.base_model import look_at_model

    return look_at_model(text)


def _facts(choices: Choices) -> Sequence[Fact]:
    model = choices.model
    if model is None or model.problem:
        return []
    if model.is_remote:
        text = "Not on this computer yet. It is downloaded when training starts."
        family = FAMILY_LABELS.get(model.family)
        known = [Fact("Family", family)] if family else []
        return [*known, Fact("Where", f"{model.where}. {text}")]
    return [
        Fact("Family", f"{FAMILY_LABELS[model.family]}, made for {model.side} × {model.side} px"),
        Fact("Precision", model.precision or "not known"),
        Fact("Size", format_bytes(model.size)),
        Fact("Where", model.where),
    ]
