"""The question on which device a queued run trains."""

import tkinter as tk
from tkinter import ttk

from onetrainer.config.fields import setting_at
from onetrainer.messages.queue_rows import device_label
from onetrainer.queue.queue import Entry
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog

_SET = "set"


def ask_device(context: Context, entry: Entry) -> str:
    """Ask for the device of a queued run or job; "" if canceled."""
    setting = setting_at("hardware.device")
    assert setting is not None
    # A job takes one device.
    offered = [each for each in setting.ui.choices if not (entry.job and "," in each)]
    by_label = {device_label(device): device for device in (*offered, entry.device)}
    title = f"Where does “{entry.folder.name}” {'compute' if entry.job else 'train'}?"
    dialog, widgets = Dialog(context, title), context.widgets
    dialog.add_text(
        "Runs on different GPUs train at the same time, those on one after the other. Automatic is "
        "the first GPU if there is one."
    )
    chosen = tk.StringVar(dialog.window, device_label(entry.device))
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
