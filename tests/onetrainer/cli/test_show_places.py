"""What is told of runs, checkpoints, pictures and of what is not there."""

import json

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from onetrainer.__main__ import main
from onetrainer.cli.show import inspect_path, lines
from onetrainer.errors import UserError
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Finished, Progress, Started
from onetrainer.run.run_folder import create_run
from tests import tiny

CONFIG = {
    "model": {"family": "sdxl", "path": "/home/me/models/base.safetensors"},
    "method": {"kind": "lora", "rank": 16},
    "training": {"steps": 6},
}


def text(path):
    return "\n".join(lines(inspect_path(path)))


@pytest.fixture
def run(tmp_path):
    folder = create_run(tmp_path / "runs", name="smiley", config=CONFIG)
    writer = EventWriter(folder.events)
    for event in (Started(1, 0, 6), Progress(6, 6, 0, 0.1, 0.1), Finished(6, [])):
        writer.write(event)
    writer.close()
    (folder.output / "smiley.safetensors").write_bytes(b"x")
    (folder.output / "part.tmp").write_bytes(b"x")
    folder.checkpoint(3).mkdir()
    (folder.checkpoint(3) / "state.json").write_text("{}")
    return folder


def test_run_folder_is_told_as_one_with_what_it_made(run):
    assert text(run.path) == (
        "smiley-001: a OneTrainer run folder\n"
        "  Trains: a LoRA of rank 16 for SDXL, on base.safetensors\n"
        "  State: finished, step 6 of 6\n"
        "  Checkpoints: 1, the newest after step 3\n"
        "  Files: output/smiley.safetensors"
    )


def test_checkpoint_is_told_with_its_run(run):
    told = text(run.checkpoint(3))
    assert "step-000003: a checkpoint of the run smiley-001, after step 3" in told
    assert "rank 16 for SDXL" in told
    assert "onetrainer resume" in told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("weights", "the weights"),
        ("optimizer", "the optimizer state"),
        ("ema", "the EMA weights"),
    ],
)
def test_file_of_a_checkpoint_is_told_with_its_run(run, name, words):
    path = run.checkpoint(3) / f"{name}.safetensors"
    tiny.write_header(path, {"unet.conv_in.weight": (8, 4, 3, 3)})
    told = text(path)
    whose = "a checkpoint of the run smiley-001, after step 3"
    assert told.startswith(f"{name}.safetensors: {words} of {whose}\n")
    assert "onetrainer resume" in told


def test_file_that_is_only_called_like_a_checkpoints_is_told_by_its_tensors(tmp_path):
    path = tiny.write_sdxl(tmp_path / "weights.safetensors")
    assert text(path).startswith("weights.safetensors: an SDXL model")


def test_folder_of_a_model_is_told_among_what_a_run_made(run):
    tiny.write_folder(run.output / "whole")
    assert "Files: output/smiley.safetensors, output/whole" in text(run.path)


def test_run_that_has_not_begun_is_one(tmp_path):
    folder = create_run(tmp_path, name="new", config=CONFIG)
    assert "State: not begun, step 0 of 6" in text(folder.path)
    assert "Files: none in output/ yet" in text(folder.path)


def test_folder_of_a_vae_is_no_run(tmp_path):
    path = tiny.write_folder(tmp_path / "model")
    assert "a VAE alone" in text(path / "vae")


def test_image_prints_its_settings(tmp_path):
    settings = PngInfo()
    settings.add_text("parameters", "a cat\nSteps: 5, Seed: 3\x1b[31m")
    Image.new("RGB", (64, 32)).save(tmp_path / "a.png", pnginfo=settings)
    Image.new("RGB", (8, 8)).save(tmp_path / "b.jpg")
    assert text(tmp_path / "a.png") == (
        "a.png: an image of 64 × 32 pixels\n  a cat\n  Steps: 5, Seed: 3 [31m"
    )
    assert "No generation settings" in text(tmp_path / "b.jpg")


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n" + bytes(50), b"\xff\xd8\xff", b"RIFF...."]
)
def test_damaged_image_is_refused(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.png: this image cannot be read"):
        inspect_path(tmp_path / "a.png")


def test_nothing_there_is_told_without_talk_of_models(tmp_path):
    with pytest.raises(UserError) as raised:
        inspect_path(tmp_path / "nothing")
    assert "no such file or folder" in str(raised.value)
    assert "model" not in str(raised.value).replace(str(tmp_path), "")


def test_several_are_shown_with_a_line_between_and_as_a_list(tmp_path, run, capsys):
    model = tiny.write_sdxl(tmp_path / "xl.safetensors")
    both = [str(model), str(run.path)]
    assert main(["show", *both]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.startswith("xl.safetensors: an SDXL model\n")
    assert second.startswith("smiley-001: a OneTrainer run")
    assert main(["show", *both, "--json"]) == 0
    assert [one["kind"] for one in json.loads(capsys.readouterr().out)] == ["sdxl", "run"]


def test_one_that_cannot_be_read_keeps_none_untold(tmp_path, capsys):
    model = str(tiny.write_sdxl(tmp_path / "xl.safetensors"))
    assert main(["show", "nothing.safetensors", model]) == 2
    out, err = capsys.readouterr()
    assert "an SDXL model" in out
    assert "nothing.safetensors: no such file or folder" in err
