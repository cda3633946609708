"""The model that forecasts are made of, and no garbage to be searched for before each."""

import gc

import pytest

from tests.least_model import write_least_configs


@pytest.fixture(scope="package", autouse=True)
def _libraries_are_not_searched():
    """Every forecast collects garbage first; what is imported by now is none."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return write_least_configs(tmp_path_factory.mktemp("plan") / "base")


@pytest.fixture(scope="session")
def wide_base(tmp_path_factory):
    """Weights count for as much here as in real models."""
    return write_least_configs(tmp_path_factory.mktemp("plan") / "wide", is_wide=True)
