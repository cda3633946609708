"""A small project, and a run of it that nothing interrupts."""

import pytest

from modules import worker
from onetrainer.run import client
from tests import runs
from tests.forked import Forking


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("a project"))


@pytest.fixture(scope="module")
def straight(config):
    """A run that nothing has interrupted."""
    folder, forking = runs.new_run(config), Forking(worker.main)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "subprocess", forking)
        assert runs.finish(folder) == 0
    forking.end()
    return folder
