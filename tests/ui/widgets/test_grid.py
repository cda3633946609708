"""Cells on a canvas: which are painted, and how the pointer and the keys choose one."""

import pytest

from tests.ui.pumping import resize
from ui.widgets.grid import Grid
from ui.widgets.marking import Marking


class GridWindow:
    """Cells of 50 × 40 in a window of 6 columns and 5 rows."""

    def __init__(self, root, widgets, width=50):
        self.root = root
        self.painted, self.chosen, self.opened = set(), [], []
        self.cells = Grid(
            widgets,
            root,
            lambda place, box, is_current: self.painted.add(place),
            self.chosen.append,
            name="cells",
            height=40,
            width=width,
            opened=self.opened.append,
        )
        self.cells.outer.pack(fill="both", expand=True)
        resize(root, 324, 204)  # six columns, the room of the bar, and the ring
        root.update()

    def show(self, count, current=0):
        self.painted.clear()
        self.cells.show(count, current)
        self.root.update()

    def press(self, *keys):
        self.cells.canvas.focus_force()
        self.root.update()
        for key in keys:
            self.cells.canvas.event_generate(f"<{key}>")
        self.root.update()

    def click(self, x, y, *, twice=False):
        for _ in range(2 if twice else 1):
            self.cells.canvas.event_generate("<Button-1>", x=x, y=y)
        self.root.update()


@pytest.fixture
def grid(root, widgets):
    return GridWindow(root, widgets)


def test_the_cell_below_the_pointer_is_known(grid):
    grid.show(4)
    canvas = grid.cells.canvas
    canvas.event_generate("<Motion>", warp=True, x=120, y=20)
    grid.root.update()
    assert grid.cells.below_pointer == 2
    canvas.event_generate("<Motion>", warp=True, x=220, y=20)
    grid.root.update()
    assert grid.cells.below_pointer == -1


def test_only_visible_cells_are_drawn(grid):
    grid.show(100_000)
    assert grid.painted <= set(range(6 * 6))
    assert set(range(6 * 5)) <= grid.painted
    grid.painted.clear()
    grid.cells.canvas.yview_moveto(0.5)
    grid.cells.draw()
    assert 30 <= len(grid.painted) <= 36
    assert all(40_000 < place < 60_000 for place in grid.painted)


def test_keys_go_over_the_cells(grid):
    for keys, place in (
        (["Right"], 1),
        (["Down"], 6),
        (["Down", "Right", "Up"], 1),
        (["Left"], 0),
        (["Up"], 0),
        (["End"], 39),
        (["End", "Down"], 39),
        (["End", "Home"], 0),
        (["Next"], 30),
        (["Next", "Next"], 39),
    ):
        grid.show(40)
        grid.press(*keys)
        assert grid.cells.current == place, keys


def test_the_chosen_cell_is_brought_into_sight(grid):
    grid.show(600)
    grid.press("End")
    grid.painted.clear()
    grid.cells.draw()
    assert 599 in grid.painted
    grid.press("Home")
    assert grid.cells.canvas.canvasy(0) <= 0


def test_a_click_chooses_and_a_second_one_opens(grid):
    grid.show(40)
    grid.click(60, 50)
    assert (grid.chosen, grid.opened) == ([7], [])
    grid.click(60, 50, twice=True)
    assert (grid.chosen, grid.opened) == ([7], [7])
    grid.press("Return")
    assert grid.opened == [7, 7]


def test_a_click_meets_the_cell_that_is_scrolled_under_it(grid):
    grid.show(600)
    grid.cells.canvas.yview_moveto(0.5)
    top = round(grid.cells.canvas.canvasy(2))
    grid.click(10, 20)
    assert grid.chosen == [(top + 18) // 40 * 6]


def test_more_cells_that_fit_are_not_scrolled(grid):
    grid.show(12)
    grid.cells._widgets.on_wheel[grid.cells.canvas](3)
    assert grid.cells.canvas.canvasy(2) == 0
    grid.show(120)
    grid.cells._widgets.on_wheel[grid.cells.canvas](3)
    assert grid.cells.canvas.canvasy(2) > 0


def test_the_wheel_scrolls_the_page_once_the_cells_are_at_their_end(grid):
    turned, widgets = [], grid.cells._widgets
    widgets.on_wheel[grid.root] = turned.append
    grid.show(120)
    widgets.turn_wheel(grid.cells.canvas, 1)
    assert turned == []
    grid.cells.canvas.yview_moveto(1)
    widgets.turn_wheel(grid.cells.canvas, 1)
    assert turned == [1]


def test_several_cells_are_marked_by_keys_and_by_clicks(grid):
    changes = []
    marking = Marking(grid.cells, lambda: changes.append(sorted(marking.marked)))
    grid.show(12, current=2)
    assert marking.chosen == [2]
    grid.press("Control-space", "Right", "Right", "Control-space")
    assert marking.chosen == [2, 4]
    canvas = grid.cells.canvas
    for modifiers, x in (("Control-", 20), ("Shift-", 320)):
        canvas.event_generate("<Motion>", warp=True, x=x, y=20)
        grid.root.update()
        canvas.event_generate(f"<{modifiers}Button-1>", x=x, y=20)
        grid.root.update()
    assert marking.chosen == [0, 2, 4]  # beside the cells nothing is marked
    grid.press("Control-a")
    assert marking.chosen == list(range(12))
    grid.click(20, 20)
    canvas.event_generate("<ButtonRelease-1>", x=20, y=20)
    assert not marking.marked and marking.chosen == [0]
    assert len(changes) == 5
