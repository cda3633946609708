"""A program to drag files from: `python -m tests.ui.drag_source FILES`.

It says "ready" when it can be dragged from, "taken" once the window under the pointer has answered
that it takes the files, and the action that a drop has ended with.
"""

import sys
import tkinter as tk
from pathlib import Path

import tkinterdnd2

PLACE = 1300, 940
"""Of the pointer, to begin a drag."""
# tkdnd's own, for Tk's selection, loses every text/uri-list; other programs send theirs without it.
_AS_TEXT = "proc ::tkdnd::xdnd::getFormatForType type {return UTF8_STRING}"
_ANSWER = "::tkdnd::xdnd::_dodragdrop_drop_target_accepts_drop"
"""tkdnd's own: without this answer, letting go is no drop."""


def main(files: list[str]) -> None:
    uris = tuple(Path(file).as_uri() for file in files)
    root = tkinterdnd2.Tk()
    root.tk.eval(_AS_TEXT)
    root.overrideredirect(True)
    root.geometry("100x60+1280+920")
    label = tk.Label(root, text="files")
    label.pack(fill="both", expand=True)
    label.drag_source_register(1, tkinterdnd2.DND_FILES)
    label.dnd_bind("<<DragInitCmd>>", lambda _: ("copy", tkinterdnd2.DND_FILES, uris))
    label.dnd_bind("<<DragEndCmd>>", lambda event: print(event.action, flush=True))
    label.bind("<Map>", lambda _: root.after_idle(print, "ready"))

    def look() -> None:
        if root.tk.eval(f"expr {{[info exists {_ANSWER}] && ${_ANSWER}}}") == "1":
            print("taken")
        else:
            root.after(5, look)

    look()
    root.mainloop()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main(sys.argv[1:])
