"""Texts that leave this computer hold no tokens, users' names or home folders."""

import json

import pytest

from onetrainer.redaction import redact, without_tokens
from tests.each import each

SECRET = "hf_AbCdEfGhIjKlMnOp"


@each(
    "text",
    [
        f"https://ann:{SECRET}@huggingface.co/model",
        "https://ann:pass-word@huggingface.co/model",
        "https://civitai.com/model?type=Model&token=pass-word&size=full",
        "https://bucket/file?X-Amz-Signature=pass-word",
        "Authorization: Bearer pass-word-1234",
        "HF_TOKEN=pass-word",
        '{"HUGGING_FACE_HUB_TOKEN": "pass-word"}',
        "WANDB_API_KEY: pass-word",
        f"the token {SECRET} is invalid",
        "ghp_abcdefghijklmnopqrst1234",
        "sk-abcdefghijklmnopqrst1234",
    ],
)
def test_tokens_are_removed_and_the_rest_stays(text):
    said = without_tokens(text)
    assert "<token>" in said
    assert not any(secret in said for secret in ("pass-word", SECRET, "abcdefghij"))
    assert said.startswith(text[:3]) or "_" in text[:4] or "-" in text[:4]


@each(
    "text",
    [
        "the token <sign> has 4 vectors",
        '{"token": "<sign>", "keep_tokens": 2, "optimizer": {"key": 1}}',
        "77 tokens: too many; https://huggingface.co/a/b?download=true",
        "unet.down_blocks.0.attentions.0.proj_in.weight",
        "/data/home-made/pictures",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


@pytest.fixture
def ann(monkeypatch):
    monkeypatch.setenv("HOME", "/srv/people/ann.smith")
    monkeypatch.setenv("LOGNAME", "ann.smith")
    monkeypatch.setattr("platform.node", lambda: "anns-laptop")


def test_homes_users_and_computers_lose_their_names(ann):
    windows = json.dumps({"path": r"C:\Users\Ann Smith\models\a.safetensors"})
    for text, expected in (
        ("/srv/people/ann.smith/models/x.safetensors: missing", "~/models/x.safetensors: missing"),
        ('"/srv/people/ann.smith"', '"~"'),
        ("/srv/people/ann.smithson/x", "/srv/people/ann.smithson/x"),
        ("/mnt/disk/ann.smith/x", "/mnt/disk/<user>/x"),
        ("/home/bob/x and /Users/eve/y", "/home/<user>/x and /Users/<user>/y"),
        ("/home/bob and /x", "/home/<user> and /x"),
        ("/run/media/bob/usb", "/run/media/<user>/usb"),
        ("Linux anns-laptop 6.1", "Linux <computer> 6.1"),
        (windows, r'{"path": "C:\\Users\\<user>\\models\\a.safetensors"}'),
    ):
        assert redact(text) == expected
