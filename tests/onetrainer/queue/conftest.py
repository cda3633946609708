import sys

import pytest

from onetrainer.gpu_driver import present
from onetrainer.queue.queue import Queue
from onetrainer.run.run_folder import create_run


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue of a computer that has a GPU."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(present, "GPU_DEVICES", (str(tmp_path),))
    return Queue(tmp_path / "queue")


@pytest.fixture
def runs(tmp_path, queue):
    """Three runs in the queue."""
    folders = [create_run(tmp_path / "runs", name=name, config={}) for name in "abc"]
    queue.add(folders, seconds=100.0)
    return folders
