"""A project, and runs that validate, shared by a file of tests."""

import json

import pytest

from tests import table, tiny
from tests.least_model import write_least_weights
from tests.modules.training.validated_runs import done, validated


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = table.write_project(tmp_path_factory.mktemp("validated"), "sd15")
    write_least_weights(folder / "base")
    tiny.write_images(folder / "held" / "some", (f"a {table.WORD} dot", "a line"))
    tiny.write_images(folder / "held", ("nothing",))
    return folder


@pytest.fixture(scope="module")
def completed(project):
    """Completed runs that validate, one for each config; nobody writes into them."""
    runs_by_config = {}

    def run(**changes):
        key = json.dumps(changes, sort_keys=True)
        if key not in runs_by_config:
            runs_by_config[key] = done(validated(project, **changes))
        return runs_by_config[key]

    return run
