"""Names of the hub distinguished from paths, and what was downloaded found without a network."""

import socket

import pytest
from huggingface_hub import constants

from onetrainer.model_files.hub import cached_folder, is_hub_name
from tests.each import each


@each(
    "text",
    ["a/b", "stabilityai/stable-diffusion-xl-base-1.0", "runwayml/stable-diffusion-v1-5",
     "some_one/Model.v2", "A1/x_"],
)  # fmt: skip
def test_owner_and_name_are_a_hub_name(text):
    assert is_hub_name(text)


@each(
    "text",
    ["", "a", "a/b/c", "/a/b", "./a", "../b", "~/b", "a\\b", "C:/b", "C:\\a\\b", "a b/c", "a/",
     "/b", "-a/b", "a/b-", "a/.b", "a/b..c", "a/b--c", "a/b.git", "a/b.safetensors", "a/b.ckpt",
     "ä/b", "x" * 50 + "/" + "y" * 50, "https://hub.example/a/b", "a/b\n"],
)  # fmt: skip
def test_anything_else_is_none(text):
    assert not is_hub_name(text)


def test_what_exists_is_a_path(tmp_path, monkeypatch):
    (tmp_path / "models" / "nice").mkdir(parents=True)
    assert not is_hub_name("models/nice", tmp_path)
    assert is_hub_name("models/other", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert not is_hub_name("models/nice")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the Hub, and a network that nobody may ask."""

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_downloaded_model_is_found_where_the_hub_keeps_it(cache):
    assert cached_folder("owner/name") is None
    repository = cache / "models--owner--name"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    assert cached_folder("owner/name") is None
    (snapshot / "model_index.json").write_text("{}")
    assert cached_folder("owner/name") == snapshot
