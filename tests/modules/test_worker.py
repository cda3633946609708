"""What the worker decides before the engine is loaded."""

import gc

import pytest

from modules import worker


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    # Set and taken away, so that both are put back after the test.
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


@pytest.mark.parametrize(
    ("model", "rewards", "is_offline"),
    [
        ({"path": "owner/model"}, [], False),
        ({"path": "owner/model", "offline": True}, [], True),
        ({"path": "/models/base.safetensors"}, [], True),
        ({"path": "base.safetensors"}, [{"reward": "clip", "model": "owner/clip"}], False),
        ({"offline": True}, [{"reward": "clip", "model": "owner/clip"}], True),
        ({"path": "base.safetensors"}, [{"reward": "clip", "model": "clip.safetensors"}], True),
        ({}, [], True),
        ({"path": None}, "none", True),
    ],
)
def test_only_a_name_of_the_hub_opens_the_network(model, rewards, is_offline):
    config = {"model": model, "objective": {"rewards": rewards}}
    names, forbids = worker._model_names(config)
    worker._set_environment(names, is_offline=forbids)
    assert worker.os.environ.get("HF_HUB_OFFLINE") == ("1" if is_offline else None)


def test_garbage_is_collected_again_once_the_engine_is_loaded():
    before = gc.get_freeze_count()
    with worker.importing():
        assert not gc.isenabled()
        kept = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(kept)


@pytest.mark.parametrize("is_on", [True, False])
def test_torch_is_told_of_expandable_segments_before_it_loads(monkeypatch, is_on):
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(worker.sys, "platform", "linux")
    worker._set_allocator({"expandable_segments": is_on})
    assert worker.os.environ.get(names[0]) == ("expandable_segments:True" if is_on else None)
    monkeypatch.setenv(names[0], "backend:native")
    worker._set_allocator({"expandable_segments": is_on})
    assert worker.os.environ[names[0]] == "backend:native"


def test_who_forbids_the_network_is_obeyed(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    worker._set_environment(["owner/model"], is_offline=False)
    assert worker.os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"'])
def test_a_request_that_is_none_is_left_to_the_job(text):
    assert worker._parse_object(text) == {}


def test_the_log_has_no_access_tokens(tmp_path):
    path = tmp_path / "worker.log"
    with path.open("wb") as file:
        log = worker._Log(file.fileno(), "wb", closefd=False)
        text = "GET https://ann:pass-word@huggingface.co/ä\n".encode()
        assert log.write(text) == len(text)
    assert path.read_text("utf-8") == "GET https://<token>@huggingface.co/ä\n"
