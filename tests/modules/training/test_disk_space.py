"""A run folder that is not there any more while its run trains."""

import pytest

from modules.training.disk_space import DiskSpaceTask, FolderGone, shortage
from onetrainer.run.client import attach
from onetrainer.run.run_folder import RunFolder
from ui.messages.problems import capitalized


def test_a_folder_that_was_moved_ends_the_run_and_is_named_by_who_follows_it(tmp_path):
    folder = RunFolder(tmp_path / "gone")
    with pytest.raises(FolderGone, match=r"gone: the run folder was moved or deleted"):
        DiskSpaceTask(folder, None, None, steps=10).is_due(1)
    left = attach(folder).unexpected_exit()
    assert left.failure == "file missing"
    assert "gone: this run folder was moved or deleted" in left.what


def test_a_lack_of_room_begins_as_a_sentence_on_the_screen(tmp_path):
    found = shortage(RunFolder(tmp_path), 1 << 60)
    assert capitalized(found).startswith(f"The disk of {tmp_path} has ")
