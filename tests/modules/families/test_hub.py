"""The hub is played by a folder: no network in tests."""

import errno
import fnmatch
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx2
import pytest
from huggingface_hub import ModelInfo, constants
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from modules.families import hub
from modules.formats.files import hub_download
from onetrainer.errors import UserError

SMALL = [
    "model_index.json",
    "scheduler/scheduler_config.json",
    "tokenizer/merges.txt",
    "tokenizer/vocab.json",
    "text_encoder/config.json",
    "unet/config.json",
    "vae/config.json",
]
ENCODER, UNET, VAE = (
    "text_encoder/model.safetensors",
    "unet/diffusion_pytorch_model.safetensors",
    "vae/diffusion_pytorch_model.safetensors",
)
UNWANTED = [
    "README.md",
    "model.safetensors",
    "v1-5-pruned.ckpt",
    "unet/diffusion_pytorch_model.bin",
    "unet/diffusion_flax_model.msgpack",
    "vae_decoder/model.onnx",
    "unet/onnx/model.safetensors",
    "safety_checker/model.safetensors",
    "feature_extractor/preprocessor_config.json",
]


def half(name):
    return name.replace(".safetensors", ".fp16.safetensors")


class FakeHub:
    """Lists and downloads; `error` is what it raises instead."""

    def __init__(self, folder: Path, names, error=None, is_cached=False):
        self.folder, self.names, self.error = folder, names, error
        self.is_cached = is_cached
        self.downloaded: set[str] = set()
        self.revisions: list[str | None] = []

    def model_info(self, _name, *, revision, timeout):
        assert timeout <= 10
        self.revisions.append(revision)
        if self.error is not None:
            raise self.error
        return ModelInfo(id="owner/model", siblings=[{"rfilename": name} for name in self.names])

    def snapshot_download(self, _name, *, revision, allow_patterns, local_files_only=False):
        self.revisions.append(revision)
        if local_files_only:
            if not self.is_cached:
                raise LocalEntryNotFoundError("none")
            return str(self.folder)
        self.downloaded = {
            name for name in self.names for p in allow_patterns if fnmatch.fnmatchcase(name, p)
        }
        return str(self.folder)


@pytest.fixture
def play(monkeypatch, tmp_path):
    def start(names=(), **options):
        fake = FakeHub(tmp_path, [*names], **options)
        monkeypatch.setattr(hub_download, "HfApi", lambda: fake)
        monkeypatch.setattr(hub_download, "snapshot_download", fake.snapshot_download)
        return fake

    return start


def fetch(name="owner/model", *, offline=False, revision=None):
    return hub.fetch(name, offline=offline, report=lambda _: None, revision=revision)


def test_only_configs_tokenizers_and_safetensors_are_taken(play, tmp_path):
    fake = play([*SMALL, ENCODER, UNET, VAE, *UNWANTED])
    assert fetch() == tmp_path
    assert fake.downloaded == {*SMALL, ENCODER, UNET, VAE}


def test_usual_weights_come_before_half_ones_and_half_ones_before_none(play):
    fake = play([*SMALL, half(ENCODER), half(UNET), UNET, half(VAE), VAE])
    fetch()
    assert fake.downloaded == {*SMALL, half(ENCODER), UNET, VAE}


def test_weights_in_pieces_are_taken_with_their_index(play):
    pieces = [f"unet/diffusion_pytorch_model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    halves = [name.replace("model-", "model.fp16-") for name in pieces]
    index = "unet/diffusion_pytorch_model.safetensors.index.json"
    fake = play([*SMALL, ENCODER, VAE, *pieces, *halves, index])
    fetch()
    assert fake.downloaded == {*SMALL, ENCODER, VAE, *pieces, index}


def test_names_are_taken_literally(play):
    fake = play([*SMALL, ENCODER, VAE, "unet/a[1].safetensors", "unet/a1.json.bak"])
    fetch()
    assert "unet/a[1].safetensors" in fake.downloaded


def test_what_is_done_is_reported(play):
    play([*SMALL, UNET])
    reported = []
    hub.fetch("owner/model", offline=False, report=reported.append)
    assert reported == ["asking the Hugging Face Hub for owner/model", "downloading owner/model"]


def test_offline_asks_nobody(play, tmp_path):
    fake = play(error=AssertionError("asked"), is_cached=True)
    assert fetch(offline=True) == tmp_path
    assert not fake.downloaded


@pytest.mark.parametrize(
    "error", [httpx2.ConnectError("no route"), OfflineModeIsEnabled("off"), OSError("dns")]
)
def test_without_network_the_downloaded_model_is_taken(play, tmp_path, error):
    play(error=error, is_cached=True)
    assert fetch() == tmp_path


def refused(kind):
    return kind("refused", response=httpx2.Response(401, request=httpx2.Request("GET", "http://x")))


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        ((), httpx2.ConnectError("no route"), ["cannot be reached", "Check the network"]),
        (
            (),
            refused(RepositoryNotFoundError),
            ["no model of this name", "private", "hf auth login"],
        ),
        ((), refused(GatedRepoError), ["terms", "page on the Hugging Face Hub", "hf auth login"]),
        (["model.safetensors"], None, ["no model_index.json", "enter its path"]),
        ([*SMALL, "unet/model.bin"], None, ["has no .safetensors weights"]),
    ],
)
def test_what_goes_wrong_is_reported_with_its_remedy(play, names, error, words):
    play(names, error=error)
    with pytest.raises(UserError) as raised:
        fetch()
    assert all(word in str(raised.value) for word in ["owner/model", *words])


def test_offline_and_not_downloaded_is_reported(play):
    play()
    with pytest.raises(UserError, match=r"not been downloaded yet.*offline") as raised:
        fetch(offline=True)
    assert "Turn off model.offline to download it, or" in raised.value.remedy


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_commit_is_what_is_listed_and_downloaded(play):
    fake = play([*SMALL, UNET])
    fetch(revision=COMMIT)
    assert fake.revisions == [COMMIT, COMMIT]
    fetch()
    assert fake.revisions[2:] == [None, None]


@pytest.mark.parametrize("kind", [RevisionNotFoundError, RepositoryNotFoundError, GatedRepoError])
def test_a_commit_on_this_disk_is_taken_though_the_hub_has_it_no_more(play, tmp_path, kind):
    fake = play(error=refused(kind), is_cached=True)
    assert fetch(revision=COMMIT) == tmp_path
    assert fake.revisions == [COMMIT, COMMIT]


@pytest.mark.parametrize(
    ("offline", "error", "words"),
    [
        (False, RevisionNotFoundError, ["the Hub did not provide it", "start a new run"]),
        (False, RepositoryNotFoundError, ["the Hub did not provide it", "login"]),
        (True, None, ["offline mode is on", "model.offline"]),
    ],
)
def test_a_commit_that_cannot_be_had_is_reported(play, offline, error, words):
    play(error=error and refused(error))
    with pytest.raises(UserError) as raised:
        fetch(offline=offline, revision=COMMIT)
    assert all(word in str(raised.value) for word in ["owner/model", COMMIT, *words])


def test_the_folder_is_named_by_the_commit(tmp_path, monkeypatch):
    """By the library itself, from what lies in its cache."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--owner--model"
    for commit in (COMMIT, COMMIT[::-1]):
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "model_index.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    assert fetch(offline=True).name == COMMIT
    assert fetch(offline=True, revision=COMMIT[::-1]).name == COMMIT[::-1]


def test_a_full_disk_is_reported(play, monkeypatch):
    play([*SMALL, UNET])

    def fail(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub_download, "snapshot_download", fail)
    with pytest.raises(UserError, match="disk is full"):
        fetch()


def test_a_name_that_cannot_be_one_is_reported_by_the_library_itself():
    with pytest.raises(UserError, match="not a valid hub model name"):
        fetch("owner/..model--x")


def test_a_job_that_downloads_ends_at_a_signal_and_not_with_its_last_file(play, monkeypatch):
    def download(*_args, **_options):
        with ThreadPoolExecutor() as pool:
            pool.submit(Event().wait)
            signal.raise_signal(signal.SIGTERM)

    play([*SMALL, UNET])
    monkeypatch.setattr(hub_download, "snapshot_download", download)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as jobs do
        signal.alarm(20)
        fetch()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
