"""The look at a folder of images, as the guided start takes it."""

from pathlib import Path

from ui.background.background_query import CancelToken
from ui.pages.start.images_step import _look


def test_a_folder_whose_name_no_config_can_hold_is_refused_in_a_sentence():
    for name in ("caf\udce9", "a\0b"):
        found = _look(Path("/pictures") / name, CancelToken(lambda *_: None))
        assert found.is_complete
        assert "contains an invalid character; choose a folder of images." in found.problem
