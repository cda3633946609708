"""The model that forecasts are made of, and no garbage to be searched for before each."""

import gc
import json

import pytest

from tests import tiny


@pytest.fixture(scope="package", autouse=True)
def _libraries_are_not_searched():
    """Every forecast collects garbage first; what is imported by now is none.

    It stays out: with the libraries in it, each collection of later tests takes half a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return str(tiny.write_configs(tmp_path_factory.mktemp("plan") / "base"))


@pytest.fixture(scope="session")
def wide_base(tmp_path_factory):
    """Weights count for as much here as in real models."""
    folder = tiny.write_configs(tmp_path_factory.mktemp("plan") / "wide")
    path = folder / "unet" / "config.json"
    wide = {"block_out_channels": [320, 640], "norm_num_groups": 32, "attention_head_dim": 8}
    path.write_text(json.dumps(json.loads(path.read_text()) | wide))
    return str(folder)
