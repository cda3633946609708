"""The page of images in this process: what a person does while threads still look for them."""

import threading
from types import SimpleNamespace

import pytest

from tests.ui.pumping import pump_until
from tests.ui.xscreen import DEADLINE
from ui.background.background_query import CancelToken
from ui.background.image_cache import ImageCache
from ui.background.image_check import make_check
from ui.editing.image_list import read_images
from ui.editing.mask_painting import IGNORED
from ui.pages.images import page as page_module
from ui.pages.images.page import ImagesPage
from ui.pages.images.shown import Shown

ACTIONS = (
    "check_images",
    "choose_path",
    "commit",
    "jump",
    "open_path",
    "show_message",
    "show_page",
)


@pytest.fixture
def context(root, widgets, jobs, draft):
    act = SimpleNamespace(**dict.fromkeys(ACTIONS, lambda *_: ""))
    return SimpleNamespace(
        root=root,
        widgets=widgets,
        draft=draft,
        images=ImageCache(jobs),
        check=make_check(draft, jobs),
        pages=(),
        act=act,
    )


def test_the_image_that_is_selected_while_a_longer_list_is_filtered_stays(
    context, root, jobs, project, monkeypatch
):
    may_find, find = threading.Event(), page_module.matching

    def matching(*arguments):
        assert may_find.wait(DEADLINE)
        return find(*arguments)

    monkeypatch.setattr(page_module, "matching", matching)
    page = ImagesPage(context, root)
    page.outer.pack(fill="both", expand=True)
    root.update()
    page.refresh()

    def deliver_until(condition):
        pump_until(root, lambda: jobs.deliver() >= 0 and condition())

    may_find.set()
    deliver_until(lambda: page.images.is_complete and page.thumbnails.images is page.images)
    (project.parent / "pictures" / "a first one.png").write_bytes(b"no image")
    may_find.clear()
    page.open()
    deliver_until(lambda: len(page.images.rows) == 13)
    page.thumbnails.move(1)
    assert page.panels.caption.row.name == "paper-01.png"
    may_find.set()
    deliver_until(lambda: len(page.thumbnails.shown) == 13 and not page.query.is_working)
    assert page.thumbnails.row.name == page.panels.caption.row.name == "paper-01.png"


def test_a_mask_of_an_image_that_was_only_listed_can_be_painted_once_it_is_read(
    context, root, widgets, jobs, draft
):
    """As after two changes of size, of which the second came before the images were read.

    It stays open when a filter leaves its image out, and can then be removed and painted again.
    """
    lists = []
    read_images(draft.config(), CancelToken(lambda *_: None, lists.append))
    left = Shown(lists[0], range(len(lists[0].rows)), 0, frozenset(), "caption", True)
    widgets.kept.keep("images", left)
    page = ImagesPage(context, root)
    page.outer.pack(fill="both", expand=True)
    page.refresh()
    view = page.painting.view
    assert view.painting is None

    def deliver_until(condition):
        pump_until(root, lambda: jobs.deliver() >= 0 and condition())

    deliver_until(lambda: view.painting and page.thumbnails.images is page.images)
    painted, painting = view.row.path, view.painting
    page.filter_bar._text.set("paper-03")  # which the open one is not
    page.filter_bar._search()
    deliver_until(lambda: len(page.thumbnails.shown) == 1)
    assert page.thumbnails.row.path != painted
    assert (view.row.path, view.painting) == (painted, painting)

    painting.fill(0, 0, IGNORED, 1.0)
    page.commit()
    deliver_until(lambda: page.images.rows[0].mask and not page._rereads.is_busy)
    view._remove()
    deliver_until(lambda: page.images.rows[0].mask is None and view.painting)
    assert view.row.path == painted
