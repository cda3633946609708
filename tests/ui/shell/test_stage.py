"""Pages take turns without an empty window in between."""

import pytest

from ui.shell.stage import Stage


@pytest.fixture
def stage(root, widgets):
    made = Stage(widgets, root)
    made.outer.configure(width=300, height=200)
    made.outer.grid_propagate(False)
    made.outer.pack()
    return made


def test_a_page_stays_on_the_screen_until_the_next_one_is_drawn_over_it(root, widgets, stage):
    one, two = (widgets.frame(stage.outer) for _ in range(2))
    seen = []
    for page, before in ((one, None), (two, one), (one, two)):
        stage.show(page, lambda before=before: seen.append(before and before.winfo_ismapped()))
        root.update()
        assert (page.winfo_ismapped(), page.winfo_width()) == (1, stage.outer.winfo_width())
        assert before is None or not before.winfo_ismapped()
    assert seen == [None, 1, 1]


def test_a_page_that_cannot_be_drawn_leaves_no_two_pages(root, widgets, stage):
    one, two = (widgets.frame(stage.outer) for _ in range(2))
    stage.show(one, lambda: None)
    with pytest.raises(ZeroDivisionError):
        stage.show(two, lambda: 1 / 0)
    root.update()
    assert (one.winfo_ismapped(), two.winfo_ismapped()) == (0, 1)
