"""Texts that leave this computer hold no tokens, users' names or home folders."""

import json
import time
from contextlib import suppress

import pytest
import torch

from modules.formats.files.files import write_safetensors
from onetrainer.__main__ import main
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, ProblemsError, UserError
from onetrainer.presets.presets import save_preset
from onetrainer.redaction import redact, without_tokens
from onetrainer.run.events import Failed, Finished
from onetrainer.run.wire import decode_event, encode_event
from onetrainer.tensor_files.safetensors_header import read_safetensors
from tests.each import each

SECRET = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz"


@each(
    "text",
    [
        f"https://ann:{SECRET}@huggingface.co/model",
        "https://ann:pass-word@huggingface.co/model",
        "/srv/https:/ann:pass-word@huggingface.co/model",
        r"C:\https:\ann:pass-word@huggingface.co\model",
        "https://ann:p@pass-word@huggingface.co/model",
        "Authorization: Basic pass-word1",
        "onetrainer --hub-token pass-word",
        "https://bucket/file#access_token=pass-word",
        "https://civitai.com/model?type=Model&token=pass-word&size=full",
        "https://bucket/file?X-Amz-Signature=pass-word",
        "Authorization: Bearer pass-word-1234",
        "HF_TOKEN=pass-word",
        '{"HUGGING_FACE_HUB_TOKEN": "pass-word"}',
        "WANDB_API_KEY: pass-word",
        f"the token {SECRET} is invalid",
        "ghp_abcdefghijklmnopqrst1234",
        "sk-proj-abcdefghij_klmnopqrst1234",
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
        "C:/models/ann@home/x and mail to ann@home: basic training of 8 tokens",
        "a (red:/large@2) fox",
        "/models/hf_realistic_vision_fp16/unet and a prompt of sk-ateboards-everywhere",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_no_text_takes_much_longer_than_another_of_its_length():
    def seconds(text):
        start = time.process_time()
        redact((text * 60_000)[:60_000])
        return time.process_time() - start

    ordinary = max(seconds("a photo of a fox, ") for _ in range(2))
    for text in ("a.", "sk-", "/", "A_", "ab:/", "?a-", "--a-", "TOKEN ", "/home/a a"):
        assert seconds(text) < 30 * ordinary, text


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


ADDRESS = f"https://ann:{SECRET}@huggingface.co/model?token=pass-word"


def test_no_error_and_no_problem_shows_a_token():
    problem = Problem("model.path", f"{ADDRESS}: no such file", ADDRESS, ADDRESS)
    error = UserError(ADDRESS, ADDRESS, ADDRESS)
    for text in (str(error), *error.args, str(problem), str(ProblemsError([problem], ADDRESS))):
        assert "<token>" in text
        assert not any(secret in text for secret in (SECRET, "pass-word"))


def test_no_event_holds_a_token_and_each_stays_readable():
    event = Failed("program", f'GET "{ADDRESS}\\" failed\n', f"Bearer {SECRET}", SECRET)
    line = encode_event(event, time=0)
    assert not any(secret in line for secret in (SECRET, "pass-word"))
    found = decode_event(line)
    assert found.what == 'GET "https://<token>@huggingface.co/model?token=<token>" failed\n'
    assert found.remedy == "<token>"
    assert decode_event(encode_event(Finished(1, [SECRET]), time=0)) == Finished(1, ["<token>"])


def test_a_model_named_by_an_address_is_reported_without_its_token(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    for arguments in (
        ["show", ADDRESS],
        ["check", "{}", "--set", f"model.path={ADDRESS}"],
        ["sample", ADDRESS, "--prompt", "x"],
    ):
        assert main(arguments) == 2
        shown = "".join(capsys.readouterr())
        assert not any(secret in shown for secret in (SECRET, "pass-word")), arguments


@each(
    "command",
    [
        ["check", "{config}"],
        ["check", "{config}", "--json"],
        ["train", "{config}"],
        ["check", "{config}", "--set", "model.path=https://u:pass-word@h/x"],
        ["check", "{config}", "--set", "https://u:pass-word@h/x=3"],
        ["diff", "{config}", "lora"],
        ["show", "https://u:pass-word@h/x"],
        ["check", "https://u:pass-word@h/x"],
        ["check", "a", "b", "https://u:pass-word@h/x"],
        ["https://u:pass-word@h/x"],
    ],
)
def test_no_command_shows_a_token_of_an_address(tmp_path, capfd, command):
    config = tmp_path / "own.json"
    config.write_text(
        json.dumps({"model": {"path": "https://ann:pass-word@hub/a?token=pass-word"}})
    )
    with suppress(SystemExit):
        main([part.format(config=config) for part in command])
    assert "pass-word" not in "".join(capfd.readouterr())


def test_no_preset_image_or_file_that_is_written_holds_a_token(tmp_path):
    config = TrainConfig()
    model = config.model.model_copy(update={"path": "https://ann:pass-word@hub/a"})
    save_preset(config.model_copy(update={"model": model}), tmp_path / "own.json")
    metadata = {"a": '{"b": "say \\"x\\" https://ann:pass-word@hub/a"}', "c": "?token=pass-word"}
    write_safetensors(tmp_path / "a.safetensors", {"a": torch.zeros(1)}, metadata)
    for path in tmp_path.iterdir():
        assert b"pass-word" not in path.read_bytes()
    read = read_safetensors(tmp_path / "a.safetensors").metadata
    assert json.loads(read["a"])["b"] == 'say "x" https://<token>@hub/a'
