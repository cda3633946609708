"""Keyboard shortcuts of the window: what they are called, what they do, and their binding."""

import tkinter as tk
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from tkinter import ttk

from ui.context import Context, Page
from ui.model.dropped import ACCEPTED


def _undo(context: Context) -> None:
    context.act.commit()
    context.draft.undo()


def _redo(context: Context) -> None:
    context.act.commit()
    context.draft.redo()


def _zoom(context: Context, *, by: int) -> None:
    context.act.zoom(by)


# For people: keys, and what they do. For Tk: sequences with their actions; those of controls,
# dialogs and pages are bound there.
SHORTCUTS: tuple[tuple[str, str, Mapping[str, Callable[[Context], object]]], ...] = (
    ("F5", "Start training", {"<F5>": lambda context: context.act.start()}),
    (
        "Shift+F5",
        "Stop the run and save; again, to choose how to end it sooner",
        {"<Shift-F5>": lambda context: context.act.send("stop")},
    ),
    ("Ctrl+F", "Find a setting", {"<Control-f>": lambda context: context.act.find()}),
    (
        "F8 / Shift+F8",
        "Next / previous problem",
        {
            "<F8>": lambda context: context.act.jump_to_problem(1),
            "<Shift-F8>": lambda context: context.act.jump_to_problem(-1),
        },
    ),
    (
        "Ctrl+O",
        "Presets: find, compare and use one",
        {"<Control-o>": lambda context: context.act.choose_preset()},
    ),
    ("Ctrl+S", "Save the preset", {"<Control-s>": lambda context: context.act.save_preset()}),
    (
        "Ctrl+Shift+S",
        "Save as a new preset",
        {"<Control-S>": lambda context: context.act.save_preset_as()},
    ),
    (
        "Ctrl+Z / Ctrl+Shift+Z",
        "Undo / redo a change of settings",
        {"<Control-z>": _undo, "<Control-Z>": _redo, "<Control-y>": _redo},
    ),
    (
        "Drag and drop",
        f"Drop on the window: {ACCEPTED}",
        {},
    ),
    ("Alt+1 … Alt+9, Alt+0", "Go to one of the first ten pages", {}),
    ("Tab / Shift+Tab", "Next / previous control", {}),
    ("Page Down / Page Up", "Scroll the page", {}),
    ("Space / Enter", "Press a button or a link, toggle a switch", {}),
    ("Left / Right", "Samples: previous / next step", {}),
    ("Up / Down", "Samples: previous / next prompt", {}),
    ("Hold Space", "Samples: compare with another step", {}),
    ("S / Ctrl+C", "Samples: star the step / copy the image's path", {}),
    ("Ctrl+Left / Ctrl+Right", "Samples: move the edge of a wipe", {}),
    ("+ / - / 0", "Samples and charts: zoom in / out / all of it", {}),
    ("Shift+arrows", "Samples and charts: move what is zoomed", {}),
    (
        "F1",
        "Help for the current setting, or this page",
        {"<F1>": lambda context: context.act.help()},
    ),
    (
        "Ctrl++ / Ctrl+-",
        "Larger / smaller",
        {
            key: partial(_zoom, by=by)
            for by, keys in ((1, ("plus", "equal", "KP_Add")), (-1, ("minus", "KP_Subtract")))
            for key in (f"<Control-{name}>" for name in keys)
        },
    ),
    (
        "Ctrl+0",
        "The desktop's size",
        {"<Control-Key-0>": lambda context: context.act.zoom(0)},
    ),
    ("Ctrl+D", "Dark or light", {"<Control-d>": lambda context: context.act.switch_mode()}),
    (
        "Esc",
        "Close a dialog, the search, the presets or this page",
        {"<Escape>": lambda context: context.act.leave_page()},
    ),
)


def bind_keys(root: tk.Tk, pages: Sequence[Page], context: Callable[[], Context]) -> None:
    """Bind the keys of the whole window, once. context: Returns that of its widgets by then."""
    actions: dict[str, Callable[[Context], object]] = {
        sequence: action for _, _, bindings in SHORTCUTS for sequence, action in bindings.items()
    }
    actions |= {f"<{page.key}>": partial(_show_page, name=page.name) for page in pages if page.key}
    listed = [page.name for page in pages if page.group]
    # In the order of the keyboard: zero follows nine.
    for place, name in enumerate(listed[:10], start=1):
        actions[f"<Alt-Key-{place % 10}>"] = partial(_show_page, name=name)
    _bind_select_all(root)
    _bind_return(root)
    for sequence, action in actions.items():
        _bind(root, sequence, action, context)


def _show_page(context: Context, *, name: str) -> None:
    context.act.show_page(name)


def _bind(
    root: tk.Tk,
    sequence: str,
    action: Callable[[Context], object],
    context: Callable[[], Context],
) -> None:
    def pressed(event: "tk.Event[tk.Misc]") -> str | None:
        # Ignore keys in dialogs, also Tk's own, whose widgets tkinter knows only by path, and
        # while a menu or list is open, which has the grab.
        top = str(root.tk.call("winfo", "toplevel", str(event.widget)))
        if top != str(root) or root.tk.call("grab", "current", root):
            return None
        action(context())
        return "break"

    root.bind_all(sequence, pressed)
    if sequence in ("<Control-o>", "<Control-d>", "<Control-f>"):
        # Otherwise Tk's own bindings of these keys (new line, delete, forward) would run too.
        root.bind_class("Text", sequence, pressed)
        root.bind_class("TEntry", sequence, pressed)


def _bind_select_all(root: tk.Tk) -> None:
    """Bind Ctrl+A to select all; on Linux, Tk's own binding goes to the start of the line."""
    for name in ("TEntry", "TCombobox", "Entry"):
        root.bind_class(name, "<Control-a>", _select_entry)
    root.bind_class("Text", "<Control-a>", _select_text)


def _bind_return(root: tk.Tk) -> None:
    """Let Return press links, such as that of the message bar; Tk presses them by Space only."""

    def pressed(event: "tk.Event[tk.Misc]") -> str | None:
        if not isinstance(event.widget, ttk.Button):  # of a dialog of Tk's own
            return None
        event.widget.invoke()
        return "break"

    for key in ("<Return>", "<KP_Enter>"):
        root.bind_class("TButton", key, pressed)


def _select_entry(event: "tk.Event[tk.Misc]") -> str:
    if isinstance(event.widget, ttk.Entry | tk.Entry):
        event.widget.selection_range(0, "end")
        event.widget.icursor("end")
    return "break"


def _select_text(event: "tk.Event[tk.Misc]") -> str:
    if isinstance(event.widget, tk.Text):
        event.widget.tag_add("sel", "1.0", "end-1c")
    return "break"
