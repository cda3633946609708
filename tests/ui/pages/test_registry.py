"""The registry of pages: what the window, its navigation and its keys read."""

from pathlib import Path

import ui.pages
from ui.pages.registry import PAGES, SETTINGS_PAGES


def folder_of(page):
    return page.make.load().__module__.split(".")[2]


def test_every_folder_of_a_page_is_registered():
    folders = {path.parent.name for path in Path(ui.pages.__path__[0]).glob("*/page.py")}
    assert {folder_of(page) for page in PAGES} == folders
    assert [page.name for page in PAGES if folder_of(page) == "settings"] == [*SETTINGS_PAGES]


def test_names_and_keys_lead_to_one_page_each():
    for values in ([page.name for page in PAGES], [page.key for page in PAGES if page.key]):
        assert len(set(values)) == len(values), values
