"""What a tooltip says, and that it is true for as long as it is shown."""

import tkinter as tk

import pytest

from tests.ui.pumping import pump_until, resize
from ui.forms.editors import add_help_tooltip
from ui.model.form_fields import find_setting
from ui.widgets import tooltip
from ui.widgets.tooltip import Tooltip


@pytest.fixture(autouse=True)
def short_delays(monkeypatch):
    monkeypatch.setattr(tooltip, "_DELAY_MS", 20)
    monkeypatch.setattr(tooltip, "_UPDATE_EVERY_MS", 10)


def pass_time(root):
    """Lets all the timers of a tooltip go off, which happens in their order, however late."""
    is_over = []
    root.after(60, is_over.append, True)
    pump_until(root, lambda: is_over)


def shown(widget):
    windows = [child for child in widget.winfo_children() if isinstance(child, tk.Toplevel)]
    return [window.winfo_children()[0].winfo_children()[0].cget("text") for window in windows]


def field(root):
    entry = tk.Entry(root)
    entry.pack()
    root.update()
    return entry


def rest_on(root, widget):
    widget.event_generate("<Enter>")
    pass_time(root)


def test_the_text_is_kept_up_to_date(root, widgets):
    said = ["No run is in progress."]
    entry = field(root)
    Tooltip(entry, widgets.theme, lambda: said[0])
    rest_on(root, entry)
    assert shown(entry) == ["No run is in progress."]
    said[0] = "Ends the run"
    pass_time(root)
    assert shown(entry) == ["Ends the run"]
    said[0] = ""
    pass_time(root)
    assert shown(entry) == []


def test_it_goes_with_its_widget(root, widgets):
    entry = field(root)
    Tooltip(entry, widgets.theme, lambda: "words")
    rest_on(root, entry)
    entry.pack_forget()
    pass_time(root)
    assert shown(entry) == []


def test_a_field_shows_its_error_and_not_its_help(root, widgets):
    setting = find_setting("training.steps")
    entry = field(root)
    add_help_tooltip(widgets, entry, setting)
    widgets.set_has_problem(entry, True)
    rest_on(root, entry)
    assert shown(entry) == []
    widgets.set_has_problem(entry, False)
    rest_on(root, entry)
    assert shown(entry) == [setting.help]
    widgets.set_has_problem(entry, True)
    pass_time(root)
    assert shown(entry) == []


def test_a_tooltip_stays_within_its_window(root, widgets, monkeypatch):
    resize(root, 500, 200)
    entry = field(root)
    edge = root.winfo_rootx() + root.winfo_width()
    monkeypatch.setattr(entry, "winfo_pointerx", lambda: edge - 5)
    Tooltip(entry, widgets.theme, lambda: "words that are wider than what is left")
    entry.event_generate("<Enter>")
    pass_time(root)
    (window,) = (child for child in entry.winfo_children() if isinstance(child, tk.Toplevel))
    assert window.winfo_rootx() + window.winfo_width() <= edge


def test_a_key_on_a_disabled_button_shows_below_it_why_until_the_focus_leaves(root, widgets):
    button = widgets.button(root, "Resume", lambda: None)
    button.widget.pack()
    other = field(root)
    button.enable("The worker is shutting down.")
    button.take_focus()
    root.update()
    root.focus_get().event_generate("<space>")
    root.update()
    assert shown(button.widget) == ["The worker is shutting down."]
    (window,) = (each for each in button.widget.winfo_children() if isinstance(each, tk.Toplevel))
    assert window.winfo_rooty() >= button.widget.winfo_rooty() + button.widget.winfo_height()
    other.focus_set()
    pump_until(root, lambda: not shown(button.widget))
