"""Files dragged onto the window, where what that needs cannot be loaded."""

import sys

from ui.widgets.drop_target import DropTarget


def test_without_the_library_of_drops_the_window_goes_on(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "tkinterdnd2", None)
    target = DropTarget(root, lambda: True, lambda _: None, lambda _: None)
    assert not target.enable()


def test_on_a_system_that_it_is_not_built_for_the_window_goes_on(root, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    target = DropTarget(root, lambda: True, lambda _: None, lambda _: None)
    assert not target.enable()
