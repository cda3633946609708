"""How far a page is scrolled so that something on it can be seen."""

import tkinter as tk

import pytest

from tests.ui.desk import resize
from ui.widgets.scroller import Scroller


@pytest.fixture
def page(root, widgets):
    resize(root, 400, 300)
    page = Scroller(widgets, root)
    page.outer.pack(fill="both", expand=True)
    return page


def block(page, height):
    frame = tk.Frame(page.inner, width=100, height=height)
    frame.pack()
    return frame


def edges(page, widget):
    """Where it begins and ends, in what is seen of the page."""
    top = widget.winfo_rooty() - page.canvas.winfo_rooty()
    return top, top + widget.winfo_height()


def test_the_message_of_a_field_is_visible_with_it(root, page):
    _, field, warning, _ = (block(page, height) for height in (400, 30, 120, 400))
    root.update()
    page.show(field, warning)
    root.update()
    assert edges(page, field)[0] >= 0
    assert edges(page, warning)[1] <= page.canvas.winfo_height()


def test_a_widget_taller_than_the_window_is_shown_from_its_top(root, page):
    _, field, warning, _ = (block(page, height) for height in (400, 30, 500, 400))
    root.update()
    page.show(field, warning)
    root.update()
    assert 0 <= edges(page, field)[0] < edges(page, field)[1] < page.canvas.winfo_height()
