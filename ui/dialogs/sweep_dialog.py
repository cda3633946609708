"""The question which setting takes which values, one for each run."""

import tkinter as tk
from tkinter import ttk

from onetrainer.config.fields import Setting
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog
from ui.model.form_fields import display_text, page_title, pages, settings_on
from ui.widgets.changes import on_change

ADD = "add"
_KINDS = ("number", "integer", "choice", "yes-no")
_USUAL = "optimizer.lr"


def ask_sweep(context: Context) -> str:
    """Ask for a setting and its values; return "key.path=value,value", or "" if canceled."""
    settings = _settings(context)
    dialog, widgets = Dialog(context, "Add a run for each value"), context.widgets
    dialog.add_text(
        "Everything else stays as it is in the form. The runs are named by their values, such as"
        " my-lora-seed-2."
    )
    dialog.add_text("Setting", style="")
    usual = next((label for label, path in settings.items() if path == _USUAL), "")
    chosen = tk.StringVar(dialog.window, usual or next(iter(settings)))
    box = ttk.Combobox(
        dialog.body,
        values=list(settings),
        textvariable=chosen,
        state="readonly",
        font="OneTrainerBody",
        width=44,
        height=16,
    )
    box.pack(anchor="w", pady=(widgets.px(4), 0))
    widgets.name(box, "answer setting")
    dialog.add_text("Values, with commas between them", style="")
    values = tk.StringVar(dialog.window)
    entry = ttk.Entry(dialog.body, textvariable=values, font="OneTrainerBody", width=46)
    entry.pack(anchor="w", pady=(widgets.px(4), 0))
    widgets.name(entry, "answer values")
    note = widgets.label(dialog.body, "", style="Dim")
    note.pack(anchor="w", pady=(widgets.px(6), 0))

    def say() -> None:
        setting = context.draft.setting(settings[chosen.get()])
        now = context.draft.value(settings[chosen.get()])
        text = "" if setting is None else f"Now {display_text(now, setting)}."
        if setting is not None and setting.choices:
            text += f" Values: {', '.join(setting.choices)}."
        note.configure(text=text, wraplength=widgets.px(420))

    on_change(chosen, dialog.window, say)
    say()
    dialog.add_buttons([Choice(ADD, "Add the runs", "primary"), Choice("", "Cancel")])
    entry.bind("<Return>", lambda _: dialog.close(ADD))
    answer = dialog.wait(focus=entry)
    return f"{settings[chosen.get()]}={values.get()}" if answer == ADD else ""


def _settings(context: Context) -> dict[str, str]:
    """Return the paths of settings of one value, by their page and label."""

    def is_swept(setting: Setting) -> bool:
        return setting.kind in _KINDS and context.draft.setting(setting.path) is not None

    return {
        f"{page_title(setting.path)}: {setting.ui.label}": setting.path
        for plan in pages()
        for setting in settings_on(plan)
        if is_swept(setting)
    }
