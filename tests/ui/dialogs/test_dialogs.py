"""Dialogs alone, in this process: what they hold while they wait, and what they give back."""

import tkinter as tk

import pytest

from onetrainer.errors import Fix, Problem, UserError
from tests.ui.pumping import once_asked, pump_until
from ui.dialogs.dialogs import Choice, Dialog, report_failure, show_problems


def make_dialog(context, title):
    dialog = Dialog(context, title)
    dialog.add_buttons([Choice("yes", "Yes")])
    return dialog


def grab_of(root):
    return str(root.tk.call("grab", "current", root))


def dialogs(root):
    return [each.title() for each in root.winfo_children() if isinstance(each, tk.Toplevel)]


def close_all(root):
    for each in root.winfo_children():
        if isinstance(each, tk.Toplevel):
            root.tk.eval(each.protocol("WM_DELETE_WINDOW"))


def test_the_window_does_not_close_while_a_dialog_waits(root, context):
    closed = []
    root.protocol("WM_DELETE_WINDOW", lambda: closed.append("window"))
    before = root.protocol("WM_DELETE_WINDOW")
    dialog = make_dialog(context, "A question")
    seen = []

    def try_to_close():
        root.tk.eval(root.protocol("WM_DELETE_WINDOW"))
        seen.append(bool(dialog.window.winfo_exists()))
        dialog.close("yes")

    once_asked(root, try_to_close)
    assert dialog.wait() == "yes"
    assert seen == [True]
    assert closed == []
    assert root.protocol("WM_DELETE_WINDOW") == before


def test_a_dialog_over_a_dialog_gives_the_pointer_back(root, context):
    first = make_dialog(context, "The first")
    second = make_dialog(context, "The second")
    grabs = []

    def ask_in_between():
        once_asked(root, lambda: second.close("yes"))
        second.wait()
        grabs.append(grab_of(root) == str(first.window))
        first.close("yes")

    once_asked(root, ask_in_between)
    assert first.wait() == "yes"
    assert grabs == [True]
    assert grab_of(root) == ""


def test_what_no_press_has_asked_for_waits_for_the_end_of_another_dialog(root, context):
    first, shown = make_dialog(context, "The first"), []

    def fail_meanwhile():
        report_failure(context, UserError("late"))
        root.after(50, lambda: (shown.append(dialogs(root)), first.close("yes")))

    once_asked(root, fail_meanwhile)
    assert first.wait() == "yes"
    assert shown == [["The first"]]
    once_asked(root, lambda: (shown.append(dialogs(root)), close_all(root)))
    pump_until(root, lambda: len(shown) > 1)
    assert shown[1:] == [["That did not work"]]
    with pytest.raises(ZeroDivisionError):
        report_failure(context, ZeroDivisionError())


@pytest.mark.parametrize(
    ("paths", "answer", "words"),
    [
        (["optimizer.lr"], "answer problem 0", "Go to setting"),
        (["optimizer.lr", "data.folder"], "answer problem 1", "Data › Images"),
    ],
)
def test_a_problem_of_the_list_leads_to_its_setting(root, widgets, context, paths, answer, words):
    went, seen = [], []

    def press():
        seen.append(widgets.buttons[answer].widget.cget("text"))
        widgets.buttons[answer].widget.invoke()

    once_asked(root, press)
    context.act.jump = went.append
    show_problems(context, [Problem(path, "wrong") for path in paths])
    assert went == [paths[-1]]
    assert seen == [words]


def test_a_problem_that_stands_alone_is_fixed_from_the_list(root, widgets, context, draft):
    went, labels = [], []

    def press():
        labels.append(widgets.buttons["answer fix"].widget.cget("text"))
        widgets.buttons["answer fix"].widget.invoke()

    once_asked(root, press)
    context.act.jump, context.draft = went.append, draft
    problem = Problem("model.family", "of another family", fix=Fix("model.family", "sdxl"))
    show_problems(context, [problem])
    assert (went, labels) == (["model.family"], ["Use SDXL"])
    assert draft.value("model.family") == "sdxl"
