"""The page of images in this process: what a person does while threads still look for them."""

import threading
from types import SimpleNamespace

from tests.ui.pumping import pump_until
from tests.ui.xscreen import DEADLINE
from ui.background.image_cache import ImageCache
from ui.background.image_check import make_check
from ui.pages.images import page as page_module
from ui.pages.images.page import ImagesPage

ACTIONS = (
    "check_images",
    "choose_path",
    "commit",
    "jump",
    "open_path",
    "show_message",
    "show_page",
)


def test_the_image_that_is_selected_while_a_longer_list_is_filtered_stays(
    root, widgets, jobs, draft, project, monkeypatch
):
    may_find, find = threading.Event(), page_module.matching

    def matching(*arguments):
        assert may_find.wait(DEADLINE)
        return find(*arguments)

    monkeypatch.setattr(page_module, "matching", matching)
    act = SimpleNamespace(**dict.fromkeys(ACTIONS, lambda *_: ""))
    context = SimpleNamespace(
        root=root,
        widgets=widgets,
        draft=draft,
        images=ImageCache(jobs),
        check=make_check(draft, jobs),
        pages=(),
        act=act,
    )
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
