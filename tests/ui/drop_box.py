"""A program to drop files on: `python -m tests.ui.drop_box`. It says "ready", then each path."""

import sys
import tkinter as tk

import tkinterdnd2

PLACE = 1320, 950
"""Of the pointer, to drop."""


def main() -> None:
    root = tkinterdnd2.Tk()
    root.overrideredirect(True)
    root.geometry("100x60+1280+920")
    label = tk.Label(root, text="drop here")
    label.pack(fill="both", expand=True)
    label.drop_target_register(tkinterdnd2.DND_FILES)
    label.dnd_bind(
        "<<Drop>>", lambda event: print(*root.tk.splitlist(event.data), sep="\n") or "copy"
    )
    label.bind("<Map>", lambda _: root.after_idle(print, "ready"))
    root.mainloop()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
