"""What the window does while it is idle ends, whatever becomes of it."""

import pytest

from tests.ui.pumping import pump_until
from ui.context import Page
from ui.pages import preparations, registry


def test_a_page_that_cannot_be_imported_is_reported_and_waited_for_no_longer(
    root, jobs, widgets, monkeypatch
):
    broken = Page("broken", "Broken", registry._In("no_such_page", "BrokenPage"))
    monkeypatch.setattr(registry, "PAGES", (broken,))
    monkeypatch.setattr(preparations, "pages", tuple)  # of settings, which take their time
    monkeypatch.setattr(preparations, "AFTER_MS", 1)
    made = preparations.Preparations(root, jobs, widgets.theme.faces, tuple, {}, broken.make)
    made.begin()
    pump_until(root, lambda: made.is_done)
    with pytest.raises(ModuleNotFoundError, match="no_such_page"):
        pump_until(root, jobs.deliver)
