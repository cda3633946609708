"""What the worker decides before the engine is loaded."""

import pytest

from modules import worker


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    # Set and taken away, so that both are put back after the test.
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


@pytest.mark.parametrize(
    ("settings", "is_offline"),
    [
        ({"path": "owner/model"}, False),
        ({"path": "owner/model", "offline": True}, True),
        ({"path": "/models/base.safetensors"}, True),
        ({}, True),
        ({"path": None}, True),
    ],
)
def test_only_a_model_of_the_hub_opens_the_network(settings, is_offline):
    worker._set_environment(settings, "path")
    assert worker.os.environ.get("HF_HUB_OFFLINE") == ("1" if is_offline else None)


def test_who_forbids_the_network_is_obeyed(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    worker._set_environment({"path": "owner/model"}, "path")
    assert worker.os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"'])
def test_a_request_that_is_none_is_left_to_the_job(text):
    assert worker._peek(text) == {}
