"""Key bindings of the window; messages/keys.py lists them for people."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from typing import Protocol

from onetrainer.run.commands import CommandName
from ui.actions.preset_actions import PresetActions
from ui.context import Context
from ui.model.draft import Draft
from ui.shell.shell import Shell


class Window(Protocol):
    """Parts of the window that keys use."""

    root: tk.Tk
    context: Context
    draft: Draft
    presets: PresetActions
    shell: Shell

    def start(self) -> None: ...

    def send(self, command: CommandName) -> None: ...

    def show_page(self, name: str) -> None: ...

    def jump_to_problem(self, by: int = 1) -> None: ...

    def commit(self) -> None: ...

    def switch_mode(self) -> None: ...

    def help(self) -> None: ...


def bind_keys(window: Window) -> None:
    """Bind the keys of the whole window."""
    root, draft = window.root, window.draft

    def undo(step: Callable[[], None]) -> None:
        window.commit()
        step()

    actions: dict[str, Callable[[], object]] = {
        "<F5>": window.start,
        "<Shift-F5>": lambda: window.send("stop"),
        "<F8>": window.jump_to_problem,
        "<Shift-F8>": lambda: window.jump_to_problem(-1),
        "<Control-f>": lambda: window.shell.finder.open(),
        "<Control-o>": lambda: window.presets.show_menu(),
        "<Control-s>": window.presets.save,
        "<Control-S>": window.presets.save_as,
        "<Control-z>": lambda: undo(draft.undo),
        "<Control-Z>": lambda: undo(draft.redo),
        "<Control-y>": lambda: undo(draft.redo),
        "<Control-d>": window.switch_mode,
        "<F1>": window.help,
    }
    pages = window.context.pages
    for page in pages:
        if page.key:
            actions[f"<{page.key}>"] = partial(window.show_page, page.name)
    listed = [page.name for page in pages if page.group]
    # In the order of the keyboard: zero follows nine.
    for place, name in enumerate(listed[:10], start=1):
        actions[f"<Alt-Key-{place % 10}>"] = partial(window.show_page, name)
    for sequence, action in actions.items():
        _bind(root, sequence, action)


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
