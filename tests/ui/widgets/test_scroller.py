"""How far a page is scrolled so that something on it can be seen."""

import tkinter as tk
from tkinter import ttk

import pytest

from tests.ui.pumping import resize
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


def test_the_wheel_over_a_table_scrolls_it_as_long_as_it_hides_rows_and_then_the_page(
    root, widgets
):
    table, turned = ttk.Treeview(root, height=3, show="tree"), []
    table.pack()
    widgets.on_wheel[root] = turned.append
    widgets.scroll_by_wheel(table)
    for count, over in ((2, [1, -1]), (9, [])):
        while len(table.get_children()) < count:
            table.insert("", "end", text="a row")
        root.update()
        turned.clear()
        widgets.turn_wheel(table, 1)
        widgets.turn_wheel(table, -1)
        assert turned == over, count
