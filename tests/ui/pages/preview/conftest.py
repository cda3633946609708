"""One project for all tests of this folder, which only read it."""

import pytest

from tests.ui.project import write_project


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    return write_project(tmp_path_factory.mktemp("project"))
