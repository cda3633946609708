"""Dialog with the base models that were used before or are in a person's folders."""

from ui.context import Context
from ui.dialogs.dialogs import Dialog
from ui.models.table import ModelTable

_ROWS = 9


def choose_model(context: Context) -> str:
    """Let the user choose one of the known base models; "" if canceled."""
    dialog = Dialog(context, "Choose a base model")
    chosen = ""
    taken = False

    def choose(text: str) -> None:
        nonlocal chosen
        chosen = text
        button.enable("")

    def take() -> None:
        nonlocal taken
        if chosen:
            taken = True
            dialog.close("")

    table = ModelTable(context, dialog.body, choose, take, rows=_ROWS)
    table.outer.pack(fill="both", expand=True, pady=(context.widgets.px(10), 0))
    line = context.widgets.frame(dialog.body)
    line.pack(fill="x", pady=(context.widgets.px(16), 0))
    button = context.widgets.button(line, "Use it", take, kind="primary", name="answer choose")
    button.enable("Select a model first.")
    button.widget.pack(side="right", padx=(context.widgets.px(8), 0))
    dialog.add_button(line, "", "Cancel", name="cancel").widget.pack(side="right")
    dialog.wait(table.table)
    return chosen if taken else ""
