"""The question on which device a queued run trains."""

import tkinter as tk
from tkinter import ttk

from onetrainer.config.fields import setting_at
from onetrainer.messages.queue_rows import device_label
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog

_SET = "set"


def ask_device(context: Context, name: str, now: str) -> str:
    """Ask for the device of a run, which has one now; "" if canceled."""
    setting = setting_at("hardware.device")
    assert setting is not None
    by_label = {device_label(device): device for device in (*setting.ui.choices, now)}
    dialog, widgets = Dialog(context, f"Where does “{name}” train?"), context.widgets
    dialog.add_text(
        "Runs on different GPUs train at the same time, those on one after the other. Automatic is "
        "the first GPU if there is one."
    )
    chosen = tk.StringVar(dialog.window, device_label(now))
    box = ttk.Combobox(
        dialog.body,
        values=list(by_label),
        textvariable=chosen,
        state="readonly",
        font="OneTrainerBody",
        width=30,
        height=16,
    )
    box.pack(anchor="w", pady=(widgets.px(12), 0))
    widgets.name(box, "answer device")
    box.bind("<Return>", lambda _: dialog.close(_SET))
    dialog.add_buttons([Choice(_SET, "Use it", "primary"), Choice("", "Cancel")])
    return by_label[chosen.get()] if dialog.wait(focus=box) == _SET else ""
