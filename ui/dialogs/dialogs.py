"""Questions and messages in windows of their own; Escape leaves each of them."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from tkinter import ttk

from onetrainer.errors import Problem, UserError, sentence
from ui.messages.problems import problem_text
from ui.model.form_fields import find_setting, page_title
from ui.widgets.widgets import Button, ButtonKind, Kit

_WIDTH = 460
_MOST_SHOWN = 8
_MOST_CHANGES = 14
_LONGEST_VALUE = 28


@dataclass(frozen=True)
class Choice:
    """One answer to a question; the first one is taken by Return."""

    answer: str
    label: str
    kind: ButtonKind = "plain"


class Dialog:
    """A window over the main one that has to be answered."""

    def __init__(self, kit: Kit, root: tk.Tk, title: str) -> None:
        self.kit = kit
        self._root = root
        self.answer = ""
        self.window = tk.Toplevel(root)
        self.window.withdraw()
        self.window.title(title)
        self.window.transient(root)
        self.window.resizable(False, False)
        kit.theme.paint(self.window, bg="card")
        self.body: ttk.Frame = kit.frame(self.window)
        self.body.pack(fill="both", expand=True, padx=kit.px(24), pady=kit.px(20))
        kit.label(self.body, title, style="Heading", wrap=_WIDTH).pack(anchor="w")
        self.window.bind("<Escape>", lambda _: self.close(""))
        self.window.protocol("WM_DELETE_WINDOW", lambda: self.close(""))
        self._buttons: list[Button] = []
        self._guard = _Guard(root, self.window)

    def add_text(self, text: str, style: str = "Dim") -> None:
        """Adds a paragraph."""
        label = self.kit.label(self.body, text, style=style, wrap=_WIDTH)
        label.pack(anchor="w", pady=(self.kit.px(8), 0))

    def add_buttons(self, choices: list[Choice]) -> None:
        """Adds the answers, the first one nearest to the corner."""
        line = self.kit.frame(self.body)
        line.pack(fill="x", pady=(self.kit.px(20), 0))
        self._buttons = [
            self.kit.button(
                line,
                choice.label,
                partial(self.close, choice.answer),
                kind=choice.kind,
                name=f"answer {choice.answer}",
            )
            for choice in reversed(choices)
        ]
        for button in reversed(self._buttons):
            button.widget.pack(side="right", padx=(self.kit.px(8), 0))

    def close(self, answer: str) -> None:
        """Ends the dialog with an answer; "" for none."""
        self.answer = answer
        for name in [name for name in self.kit.named if name.startswith("answer ")]:
            self.kit.named.pop(name)
            self.kit.buttons.pop(name, None)
        self.window.grab_release()
        self._guard.end()
        self.window.destroy()

    def wait(self, focus: tk.Misc | None = None) -> str:
        """Shows the dialog until it is answered. The rest of the window goes on meanwhile."""
        self.window.update_idletasks()
        self._center()
        self.window.deiconify()
        self.window.wait_visibility()
        self._guard.begin()
        first = self._buttons[-1].widget if self._buttons else None
        if focus is not None:
            focus.focus_set()
        elif first is not None:
            next(c for c in first.winfo_children() if isinstance(c, tk.Canvas)).focus_set()
        self._root.wait_window(self.window)
        return self.answer

    def _center(self) -> None:
        width, height = self.window.winfo_reqwidth(), self.window.winfo_reqheight()
        left = self._root.winfo_rootx() + (self._root.winfo_width() - width) // 2
        top = self._root.winfo_rooty() + max(0, (self._root.winfo_height() - height) // 3)
        self.window.geometry(f"+{max(0, left)}+{max(0, top)}")


class _Guard:
    """Keeps pointer and keyboard with a window while it waits, and then hands them back.

    A grab alone keeps only the pointer: the window manager gives the keyboard to the window that
    was clicked on, also when that takes no clicks.
    """

    def __init__(self, root: tk.Tk, window: tk.Toplevel) -> None:
        self._root = root
        self._window = window
        self._tag = f"behind{window}"
        self._grab_before = ""
        self._close_before = ""
        self._is_on = False

    def begin(self) -> None:
        """Takes pointer and keyboard."""
        root, window = self._root, self._window
        # Asked of Tk: its own dialogs have no widget of tkinter's.
        self._grab_before = str(root.tk.call("grab", "current", root))
        self._close_before = str(root.protocol("WM_DELETE_WINDOW"))
        self._is_on = True
        window.grab_set()
        # The command goes with the dialog; one of the root's would stay for good.
        called = window.register(self._return)
        root.protocol("WM_DELETE_WINDOW", called)
        # With a tag of its own, because the root's binding of this event is customtkinter's.
        root.bindtags((*root.bindtags(), self._tag))
        root.tk.call("bind", self._tag, "<FocusIn>", called)
        # The grab has presses anywhere else in the program come here.
        window.bind("<Button-1>", self._pressed)

    def end(self) -> None:
        """Gives both back to who had them."""
        if not self._is_on:
            return
        self._is_on = False
        root, before = self._root, self._grab_before
        root.tk.call("bind", self._tag, "<FocusIn>", "")
        root.bindtags(tuple(tag for tag in root.bindtags() if tag != self._tag))
        root.protocol("WM_DELETE_WINDOW", self._close_before)
        is_available = before and int(root.tk.call("winfo", "exists", before))
        # A menu that has been closed meanwhile would hold it for good.
        if is_available and int(root.tk.call("winfo", "viewable", before)):
            root.tk.call("grab", "set", before)

    def _pressed(self, event: "tk.Event[tk.Misc]") -> str:
        window = self._window
        left, top = event.x_root - window.winfo_rootx(), event.y_root - window.winfo_rooty()
        if not (0 <= left < window.winfo_width() and 0 <= top < window.winfo_height()):
            self._return()
        # customtkinter would give the keyboard to whatever is clicked on, such as a paragraph.
        return "break"

    def _return(self) -> None:
        """Comes to the front again, unless another dialog is before this one."""
        root, window = self._root, self._window
        if self._is_on and str(root.tk.call("grab", "current", root)) == str(window):
            window.lift()
            # To where it was inside of the dialog.
            root.tk.call("focus", "-force", root.tk.call("focus", "-lastfor", window))


def ask(kit: Kit, root: tk.Tk, title: str, text: str, choices: list[Choice]) -> str:
    """The answer to a question; "" if the dialog was closed without one."""
    dialog = Dialog(kit, root, title)
    dialog.add_text(text)
    dialog.add_buttons(choices)
    return dialog.wait()


def show_error(kit: Kit, root: tk.Tk, error: UserError) -> None:
    """Shows what is wrong, what was expected and what to do."""
    what, *details = str(error.what).splitlines() or [""]
    dialog = Dialog(kit, root, "That did not work")
    dialog.add_text(sentence(what), style="")
    for part in [*details, error.expected, error.remedy]:
        if part:
            dialog.add_text(sentence(part))
    dialog.add_buttons([Choice("ok", "OK", "primary")])
    dialog.wait()


def show_problems(
    kit: Kit, root: tk.Tk, problems: list[Problem], jump: Callable[[str], None]
) -> None:
    """Lists what forbids a start; each problem leads to its setting."""
    count = len(problems)
    title = (
        "One thing is to be put right first"
        if count == 1
        else f"{count} things are to be put right first"
    )
    dialog = Dialog(kit, root, title)
    choices = [Choice("", "Close")]
    if count == 1:
        kit.label(dialog.body, _location(problems[0]), style="Bold").pack(
            anchor="w", pady=(kit.px(10), 0)
        )
        dialog.add_text(problem_text(problems[0]))
        choices.insert(0, Choice("problem 0", "Go there", "primary"))
    else:
        dialog.add_text("Choose one to go to its setting.")
        _list_problems(dialog, problems)
    dialog.add_buttons(choices)
    answer = dialog.wait()
    if answer:
        jump(problems[int(answer.removeprefix("problem "))].path)


def list_changes(kit: Kit, root: tk.Tk, name: str, changes: list[tuple[str, str, str]]) -> str:
    """The path of the change that was chosen, "reset" to take all back, or "".

    changes: for each setting its path, the value that was loaded and the one of now.
    """
    dialog = Dialog(kit, root, f"Changes to “{name}”" if name else "Changes to the defaults")
    box = kit.frame(dialog.body)
    box.pack(fill="x", pady=(kit.px(10), 0))
    for line, (path, old, new) in enumerate(changes[:_MOST_CHANGES]):
        setting = find_setting(path)
        label = setting.ui.label if setting else path
        button = kit.button(box, label, partial(dialog.close, path), name=f"answer change {line}")
        button.widget.grid(row=line, column=0, sticky="w", pady=kit.px(2))
        change = (
            "entries changed"
            if setting and setting.kind == "list"
            else (f"{_cut(old)}  →  {_cut(new)}")
        )
        kit.label(box, change).grid(row=line, column=1, sticky="w", padx=kit.px(12))
    if len(changes) > _MOST_CHANGES:
        dialog.add_text(f"… and {len(changes) - _MOST_CHANGES} more.")
    dialog.add_buttons([Choice("", "Close", "primary"), Choice("reset", "Take all back")])
    return dialog.wait()


def _cut(text: str) -> str:
    if not text:
        return "nothing"
    return text if len(text) <= _LONGEST_VALUE else f"…{text[-_LONGEST_VALUE:]}"


def ask_name(kit: Kit, root: tk.Tk, *, name: str, place: str, description: str) -> tuple[str, str]:
    """A name and a description for a preset; ("", "") if the dialog was left."""
    dialog = Dialog(kit, root, "Save as a preset")
    dialog.add_text("Name")
    label = tk.StringVar(dialog.window, name)
    entry = ttk.Entry(dialog.body, textvariable=label, font="OneTrainerBody", width=46)
    entry.pack(fill="x", pady=(kit.px(3), 0))
    dialog.add_text("Description")
    about = tk.StringVar(dialog.window, description)
    second = ttk.Entry(dialog.body, textvariable=about, font="OneTrainerBody")
    second.pack(fill="x", pady=(kit.px(3), 0))
    dialog.add_text(place, style="SmallDim")
    dialog.add_buttons([Choice("save", "Save", "primary"), Choice("", "Cancel")])
    entry.selection_range(0, "end")
    kit.name(entry, "answer name")
    for field in (entry, second):
        field.bind("<Return>", lambda _: dialog.close("save"))
    if dialog.wait(entry) != "save":
        return "", ""
    return label.get().strip(), about.get().strip()


def _list_problems(dialog: Dialog, problems: list[Problem]) -> None:
    kit = dialog.kit
    box = kit.frame(dialog.body)
    box.pack(fill="x", pady=(kit.px(10), 0))
    for place, problem in enumerate(problems[:_MOST_SHOWN]):
        line = kit.frame(box)
        line.pack(fill="x", pady=kit.px(3))
        go, name = partial(dialog.close, f"problem {place}"), f"answer problem {place}"
        kit.button(line, _location(problem), go, name=name).widget.pack(anchor="w")
        kit.label(line, problem_text(problem), style="SmallDim", wrap=_WIDTH).pack(
            anchor="w", padx=kit.px(4), pady=(kit.px(3), 0)
        )
    if len(problems) > _MOST_SHOWN:
        dialog.add_text(f"… and {len(problems) - _MOST_SHOWN} more.")


def _location(problem: Problem) -> str:
    """Where a setting is: "Training › Learning rate"."""
    setting = find_setting(problem.path)
    label = setting.ui.label if setting else problem.path or "The config"
    return f"{page_title(problem.path)} › {label}"
