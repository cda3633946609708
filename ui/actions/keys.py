"""Key bindings of the window; messages/keys.py lists them for people."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

from ui.context import Context


def bind_keys(context: Context) -> None:
    """Bind the keys of the whole window."""
    act, draft, pages = context.act, context.draft, context.pages

    def undo(step: Callable[[], None]) -> None:
        act.commit()
        step()

    actions: dict[str, Callable[[], object]] = {
        "<F5>": act.start,
        "<Shift-F5>": lambda: act.send("stop"),
        "<F8>": lambda: act.jump_to_problem(1),
        "<Shift-F8>": lambda: act.jump_to_problem(-1),
        "<Control-f>": act.find,
        "<Control-o>": act.choose_preset,
        "<Control-s>": act.save_preset,
        "<Control-S>": act.save_preset_as,
        "<Control-z>": lambda: undo(draft.undo),
        "<Control-Z>": lambda: undo(draft.redo),
        "<Control-y>": lambda: undo(draft.redo),
        "<Control-d>": act.switch_mode,
        "<F1>": act.help,
    }
    for page in pages:
        if page.key:
            actions[f"<{page.key}>"] = partial(act.show_page, page.name)
    listed = [page.name for page in pages if page.group]
    # In the order of the keyboard: zero follows nine.
    for place, name in enumerate(listed[:10], start=1):
        actions[f"<Alt-Key-{place % 10}>"] = partial(act.show_page, name)
    for sequence, action in actions.items():
        _bind(context.root, sequence, action)


def _bind(root: tk.Tk, sequence: str, action: Callable[[], object]) -> None:
    def pressed(event: "tk.Event[tk.Misc]") -> str | None:
        # Ignore keys in dialogs, also Tk's own, whose widgets tkinter knows only by path, and
        # while a menu or list is open, which has the grab.
        top = str(root.tk.call("winfo", "toplevel", str(event.widget)))
        if top != str(root) or root.tk.call("grab", "current", root):
            return None
        action()
        return "break"

    root.bind_all(sequence, pressed)
    if sequence in ("<Control-o>", "<Control-d>", "<Control-f>"):
        # Otherwise Tk's own bindings of these keys (new line, delete, forward) would run too.
        root.bind_class("Text", sequence, pressed)
        root.bind_class("TEntry", sequence, pressed)
