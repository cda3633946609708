"""What a grid of images varies from column to column and from row to row, as a person chooses."""

from collections.abc import Callable, Mapping, Sequence
from tkinter import ttk

from ui.context import Context
from ui.model.trial import TrialAxis, TrialLora, axis_choices, usual_values

_NOTHING = "Nothing"
_OF_PROMPT = "each line of the prompt"


class AxisRow:
    """A setting and its values.

    Args:
        name: Of its widgets.
        loras: Returns the LoRAs of the list, whose strengths and steps can be varied.
        typed: Returns what is typed in the other fields, by their names.
        entered: Called on Return in the values.
    """

    def __init__(
        self,
        context: Context,
        parent: ttk.Frame,
        label: str,
        name: str,
        *,
        loras: Callable[[], Sequence[TrialLora]],
        typed: Callable[[], Mapping[str, str]],
        entered: Callable[[], object],
    ) -> None:
        self._loras, self._typed = loras, typed
        widgets, px = context.widgets, context.widgets.px
        row = widgets.frame(parent)
        row.pack(fill="x", pady=(0, px(6)))
        title = widgets.label(row, label, style="SmallDim")
        title.configure(width=8)
        title.pack(side="left")
        self._of = widgets.kept.variable(row, name, _NOTHING)
        self._values = widgets.kept.variable(row, f"{name} values")
        self._box = ttk.Combobox(
            row,
            textvariable=self._of,
            values=[_NOTHING],
            state="readonly",
            font="OneTrainerBody",
            width=18,
            height=16,
            postcommand=self._list,
        )
        self._box.pack(side="left", padx=(0, px(8)))
        self._box.bind("<<ComboboxSelected>>", self._chosen)
        self._entry = ttk.Entry(
            row, textvariable=self._values, font="OneTrainerBody", width=20, state="disabled"
        )
        self._entry.pack(side="left", fill="x", expand=True)
        self._entry.bind("<Return>", lambda _: entered())
        widgets.name(self._box, name)
        widgets.name(self._entry, f"{name} values")
        self._enable(self.axis())

    def axis(self) -> TrialAxis | None:
        """Return the axis as it is typed; None for nothing."""
        found = axis_choices(self._loras()).get(self._of.get())
        if found is None:
            self._of.set(_NOTHING)
            return None
        return TrialAxis(found[0], self._values.get(), found[1])

    def _list(self) -> None:
        self._box.configure(values=[_NOTHING, *axis_choices(self._loras())])

    def _chosen(self, _: object) -> None:
        """Offer usual values of the chosen setting."""
        axis, values = self.axis(), ""
        if axis is not None:
            loras = self._loras()
            lora = loras[axis.lora - 1] if axis.lora <= len(loras) else None
            values = usual_values(axis.of, lora, self._typed())
        self._values.set(_OF_PROMPT if axis is not None and axis.of == "prompt" else values)
        self._enable(axis)

    def _enable(self, axis: TrialAxis | None) -> None:
        is_typed = axis is not None and axis.of != "prompt"
        self._entry.configure(state="normal" if is_typed else "disabled")
