"""Modal dialogs for questions and messages; Escape closes each of them."""

import tkinter as tk
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from tkinter import ttk
from tkinter.font import Font
from typing import NamedTuple

from onetrainer.errors import Problem, UserError, sentence
from onetrainer.files.lines import split_lines
from onetrainer.redaction import without_tokens
from ui.context import Context
from ui.messages.problems import fix_label, problem_text
from ui.model.form_fields import find_setting, page_title
from ui.theme.rounded import ButtonKind
from ui.widgets.button import Button
from ui.widgets.placing import give_focus

_WIDTH = 460
_CODE_LINES, _CODE_COLUMNS = 14, 82
_MAX_PROBLEMS = 8
_MAX_CHANGES = 14
_MAX_VALUE_LENGTH = 28
_LOOK_AGAIN_MS = 200


class Choice(NamedTuple):
    """Answer button of a dialog; Return takes the first one."""

    answer: str
    label: str
    kind: ButtonKind = "plain"


class Dialog:
    """Modal window over the main window."""

    def __init__(self, context: Context, title: str) -> None:
        self.widgets = widgets = context.widgets
        root = context.root
        self._root = root
        self.answer = ""
        self.window = tk.Toplevel(root)
        self.window.withdraw()
        self.window.title(title)
        self.window.transient(root)
        self.window.resizable(False, False)
        widgets.theme.paint(self.window, bg="card")
        self.body: ttk.Frame = widgets.frame(self.window)
        self.body.pack(fill="both", expand=True, padx=widgets.px(24), pady=widgets.px(20))
        widgets.label(self.body, title, style="Heading", wrap=_WIDTH).pack(anchor="w")
        self.window.bind("<Escape>", lambda _: self._escape())
        self.window.protocol("WM_DELETE_WINDOW", lambda: self.close(""))
        self._buttons: list[Button] = []
        self._looking = ""
        self._guard = _Guard(root, self.window)

    def add_text(self, text: str, style: str = "Dim") -> None:
        """Add a paragraph."""
        label = self.widgets.label(self.body, without_tokens(text), style=style, wrap=_WIDTH)
        label.pack(anchor="w", pady=(self.widgets.px(8), 0))

    def add_buttons(self, choices: list[Choice]) -> None:
        """Add the answers, the first one nearest to the corner."""
        line = self.widgets.frame(self.body)
        line.pack(fill="x", pady=(self.widgets.px(20), 0))
        self._buttons = [
            self.add_button(line, choice.answer, choice.label, kind=choice.kind)
            for choice in reversed(choices)
        ]
        for button in reversed(self._buttons):
            button.widget.pack(side="right", padx=(self.widgets.px(8), 0))

    def add_button(
        self,
        parent: tk.Misc,
        answer: str,
        label: str,
        *,
        kind: ButtonKind = "plain",
        name: str = "",
    ) -> Button:
        """Create a button that closes the dialog with an answer."""
        close, name = partial(self.close, answer), f"answer {name or answer}"
        return self.widgets.button(parent, label, close, kind=kind, name=name)

    def add_box(self) -> ttk.Frame:
        """Add an empty frame."""
        box = self.widgets.frame(self.body)
        box.pack(fill="x", pady=(self.widgets.px(10), 0))
        return box

    def add_code(self, text: str, *, hang: int) -> None:
        """Add text of a fixed width, such as code, in a box to scroll and to copy from.

        hang: By how many columns the rest of a line that wraps is indented.
        """
        widgets, font = self.widgets, Font(font="TkFixedFont")
        most = max(_CODE_LINES, self._root.winfo_height() // 2 // font.metrics("linespace"))
        lines = sum(1 + len(line) // _CODE_COLUMNS for line in split_lines(text))
        height, frame = min(most, lines), self.add_box()
        box = widgets.text_box(frame, width=_CODE_COLUMNS, height=height)
        box.configure(wrap="word", font="TkFixedFont")
        box.tag_configure("hanging", lmargin2=hang * font.measure("0"))
        box.insert("1.0", text, "hanging")
        self.pack_scrolled(box, "answer code")

    def pack_scrolled(self, box: tk.Text, name: str) -> None:
        """Fill the frame of a finished text with it and a scrollbar; keys scroll it, too."""
        box.configure(state="disabled", takefocus=1)
        bar = self.widgets.scrollbar(box.master, box.yview)
        box.configure(yscrollcommand=bar.set)
        bar.pack(side="right", fill="y")
        box.pack(side="left", fill="both", expand=True)
        box.bind("<Tab>", lambda _: give_focus(box.tk_focusNext()))
        self.widgets.on_wheel[box] = lambda _: None  # Tk scrolls it
        self.widgets.name(box, name)

    def add_rest(self, count: int, most: int) -> None:
        """Say how many lines of a list are left out."""
        if count > most:
            self.add_text(f"… and {count - most} more.")

    def close(self, answer: str) -> None:
        """Close the dialog with an answer; "" for none."""
        self.answer = answer
        if self._looking:
            self.window.after_cancel(self._looking)
        self.widgets.forget(self.window)
        self.window.grab_release()
        self._guard.end()
        self.window.destroy()

    def _close_unless(self, holds: Callable[[], bool]) -> None:
        def look() -> None:
            if holds():
                self._close_unless(holds)
            else:
                self.close("")

        self._looking = self.window.after(_LOOK_AGAIN_MS, look)

    def _escape(self) -> str:
        self.close("")
        return "break"  # the widget is gone: keys of the whole window must not look at it

    def wait(self, focus: tk.Misc | None = None, *, holds: Callable[[], bool] | None = None) -> str:
        """Show the dialog and return its answer; the event loop continues meanwhile.

        holds: Whether there is still something to ask; once there is not, the dialog closes.
        """
        self.window.update_idletasks()
        self._center()
        self._guard.hold()
        self.window.deiconify()
        self.window.wait_visibility()
        self._guard.begin()
        first = self._buttons[-1].widget if self._buttons else None
        if focus is not None:
            focus.focus_set()
        elif first is not None:
            first.focus_set()
        if holds is not None:
            self._close_unless(holds)
        self._root.wait_window(self.window)
        return self.answer

    def _center(self) -> None:
        width, height = self.window.winfo_reqwidth(), self.window.winfo_reqheight()
        left = self._root.winfo_rootx() + (self._root.winfo_width() - width) // 2
        top = self._root.winfo_rooty() + max(0, (self._root.winfo_height() - height) // 3)
        self.window.geometry(f"+{max(0, left)}+{max(0, top)}")


class _Guard:
    """Keeps pointer and keyboard in a dialog, and returns them afterwards.

    A grab holds the pointer only: the window manager gives the keyboard to any window that is
    clicked, even if it ignores clicks.
    """

    def __init__(self, root: tk.Tk, window: tk.Toplevel) -> None:
        self._root = root
        self._window = window
        self._tag = f"behind{window}"
        self._grab_before = ""
        self._close_before = ""
        self._is_on = False

    def hold(self) -> None:
        """Take the pointer and the keys of the whole window before the dialog is on the screen."""
        root = self._root
        # Queried from Tk, because its own dialogs have no tkinter widget.
        self._grab_before = str(root.tk.call("grab", "current", root))
        with suppress(tk.TclError):  # refused while a button of the pointer is down
            self._window.grab_set()

    def begin(self) -> None:
        """Take pointer and keyboard."""
        root, window = self._root, self._window
        self._close_before = str(root.protocol("WM_DELETE_WINDOW"))
        self._is_on = True
        window.grab_set()
        # Registered with the dialog, so that the command is deleted with it.
        called = window.register(self._return)
        root.protocol("WM_DELETE_WINDOW", called)
        # Bound to a separate tag, because the window has a binding of its own to this event.
        root.bindtags((*root.bindtags(), self._tag))
        root.tk.call("bind", self._tag, "<FocusIn>", called)
        # The grab redirects clicks elsewhere in the program to the dialog.
        window.bind("<Button-1>", self._pressed)

    def end(self) -> None:
        """Return pointer and keyboard to their owners."""
        if not self._is_on:
            return
        self._is_on = False
        root, before = self._root, self._grab_before
        root.tk.call("bind", self._tag, "<FocusIn>", "")
        root.bindtags(tuple(tag for tag in root.bindtags() if tag != self._tag))
        root.protocol("WM_DELETE_WINDOW", self._close_before)
        is_available = before and int(root.tk.call("winfo", "exists", before))
        # A menu that was closed meanwhile would keep the grab forever.
        if is_available and int(root.tk.call("winfo", "viewable", before)):
            root.tk.call("grab", "set", before)

    def _pressed(self, event: "tk.Event[tk.Misc]") -> str:
        window = self._window
        left, top = event.x_root - window.winfo_rootx(), event.y_root - window.winfo_rooty()
        if not (0 <= left < window.winfo_width() and 0 <= top < window.winfo_height()):
            self._return()
        # Otherwise any clicked widget, such as a paragraph, would get the focus.
        return "break"

    def _return(self) -> None:
        """Raise the dialog, unless another dialog is in front of it."""
        root, window = self._root, self._window
        if self._is_on and str(root.tk.call("grab", "current", root)) == str(window):
            window.lift()
            # Back to the widget of the dialog that had it.
            root.tk.call("focus", "-force", root.tk.call("focus", "-lastfor", window))


def once_free(root: tk.Tk, show: Callable[[], object]) -> None:
    """Show a dialog that nothing was pressed for, as soon as no other dialog or menu is open."""

    def look() -> None:
        if root.tk.call("grab", "current", root):
            root.after(_LOOK_AGAIN_MS, look)
        else:
            show()

    # Not within what delivers results, which would stand still until the answer.
    root.after(1, look)


def ask(
    context: Context,
    title: str,
    text: str,
    choices: list[Choice],
    *,
    holds: Callable[[], bool] | None = None,
) -> str:
    """Ask a question and return the answer; "" if the dialog was closed without one.

    holds: Whether there is still something to ask; once there is not, the dialog closes.
    """
    dialog = Dialog(context, title)
    dialog.add_text(text)
    dialog.add_buttons(choices)
    return dialog.wait(holds=holds)


def show_error(context: Context, error: UserError) -> None:
    """Show an error: what is wrong, what was expected, and what to do."""
    what, *details = split_lines(str(error.what)) or [""]
    dialog = Dialog(context, "That did not work")
    dialog.add_text(sentence(what), style="")
    for part in [*details, error.expected, error.remedy]:
        if part:
            dialog.add_text(sentence(part))
    dialog.add_buttons([Choice("ok", "OK", "primary")])
    dialog.wait()


def report_failure(context: Context, error: Exception) -> None:
    """Show why work in a thread has failed, once no other dialog is open; raise a defect."""
    if not isinstance(error, UserError):
        raise error
    once_free(context.root, partial(show_error, context, error))


def show_problems(context: Context, problems: list[Problem]) -> None:
    """List the problems that prevent a start; each leads to its setting, one alone to its fix."""
    count = len(problems)
    fix = problems[0].fix if count == 1 else None
    title = (
        "Fix one setting before starting" if count == 1 else f"Fix {count} settings before starting"
    )
    dialog, widgets = Dialog(context, title), context.widgets
    choices = [Choice("", "Close")]
    if count == 1:
        place = widgets.label(dialog.body, _location(problems[0]), style="Bold")
        place.pack(anchor="w", pady=(widgets.px(10), 0))
        dialog.add_text(problem_text(problems[0]))
        choices.insert(0, Choice("problem 0", "Go to setting", "primary"))
        if fix is not None:
            choices.insert(1, Choice("fix", fix_label(fix, problems[0].path)))
    else:
        dialog.add_text("Select one to go to its setting.")
        box = dialog.add_box()
        for index, problem in enumerate(problems[:_MAX_PROBLEMS]):
            line = widgets.frame(box)
            line.pack(fill="x", pady=widgets.px(3))
            button = dialog.add_button(line, f"problem {index}", _location(problem))
            button.widget.pack(anchor="w")
            text = widgets.label(line, problem_text(problem), style="SmallDim", wrap=_WIDTH)
            text.pack(anchor="w", padx=widgets.px(4), pady=(widgets.px(3), 0))
        dialog.add_rest(count, _MAX_PROBLEMS)
    dialog.add_buttons(choices)
    answer = dialog.wait()
    if answer == "fix" and fix is not None:
        context.draft.apply(fix)
        context.act.jump(fix.path)
    elif answer:
        context.act.jump(problems[int(answer.removeprefix("problem "))].path)


def list_changes(context: Context, name: str, changes: list[tuple[str, str, str]]) -> str:
    """List the changes of settings.

    Args:
        context: Of the main window.
        name: Name of the preset; "" for none.
        changes: Path, loaded value and current value of each changed setting.

    Returns:
        The path of the selected change, "reset" to undo all, or "".
    """
    widgets = context.widgets
    dialog = Dialog(context, f"Changes to “{name}”" if name else "Changes to the defaults")
    box = dialog.add_box()
    for line, (path, old, new) in enumerate(changes[:_MAX_CHANGES]):
        setting = find_setting(path)
        label = setting.ui.label if setting else path
        button = dialog.add_button(box, path, label, name=f"change {line}")
        button.widget.grid(row=line, column=0, sticky="w", pady=widgets.px(2))
        is_list = setting is not None and setting.kind == "list"
        change = "entries changed" if is_list else f"{_cut(new)}  (was {_cut(old)})"
        widgets.label(box, change).grid(row=line, column=1, sticky="w", padx=widgets.px(12))
    dialog.add_rest(len(changes), _MAX_CHANGES)
    dialog.add_buttons([Choice("", "Close", "primary"), Choice("reset", "Reset all")])
    return dialog.wait()


def _cut(text: str) -> str:
    if not text:
        return "empty"
    return text if len(text) <= _MAX_VALUE_LENGTH else f"…{text[-_MAX_VALUE_LENGTH:]}"


def ask_name(
    context: Context, *, name: str, hint: str, description: str, title: str = "Save as preset"
) -> tuple[str, str]:
    """Ask for the name and description of a preset; ("", "") if canceled."""
    dialog, widgets = Dialog(context, title), context.widgets
    texts, entries = [], []
    for title, text in (("Name", name), ("Description", description)):
        dialog.add_text(title)
        texts.append(tk.StringVar(dialog.window, text))
        entry = ttk.Entry(dialog.body, textvariable=texts[-1], font="OneTrainerBody", width=46)
        entry.pack(fill="x", pady=(widgets.px(3), 0))
        entry.bind("<Return>", lambda _: dialog.close("save"))
        entries.append(entry)
    dialog.add_text(hint, style="SmallDim")
    dialog.add_buttons([Choice("save", "Save", "primary"), Choice("", "Cancel")])
    entries[0].selection_range(0, "end")
    widgets.name(entries[0], "answer name")
    if dialog.wait(entries[0]) != "save":
        return "", ""
    return texts[0].get().strip(), texts[1].get().strip()


def _location(problem: Problem) -> str:
    """Return the page and label of a problem's setting: "Training › Learning rate"."""
    setting = find_setting(problem.path)
    label = setting.ui.label if setting else problem.path or "The config"
    return f"{page_title(problem.path)} › {label}"
