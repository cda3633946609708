"""Files of other programs where a config is expected, and JSON's commonest fault on Windows."""

import json

import pytest
from PIL import Image

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.presets.foreign import KEYS
from onetrainer.presets.presets import load, load_document, resolve, with_overrides
from tests.each import each
from ui.model.dropped import recognize


def refused(path):
    with pytest.raises(UserError) as error:
        load_document(path)
    return error.value


@each(
    ("document", "noun"),
    [
        ({"__version": 11, "training_method": "LORA", "optimizer": {}}, "version of OneTrainer"),
        ({"base_model_name": "a", "model_type": "B", "batch_size": 4}, "version of OneTrainer"),
        ({"LoRA_type": "Standard", "train_data_dir": "", "network_dim": 8}, "kohya's GUI"),
        ({"model_family": "sdxl", "lora_type": "standard"}, "SimpleTuner"),
        ({"--model_family": "sdxl", "--data_backend_config": "a.json"}, "SimpleTuner"),
        ({"job": "extension", "config": {"process": []}}, "ai-toolkit"),
        ({"nodes": [], "links": [], "version": 0.4}, "ComfyUI"),
        ({"3": {"class_type": "KSampler", "inputs": {}}}, "ComfyUI"),
        ({"sd_model_checkpoint": "a", "samples_format": "png"}, "AUTOMATIC1111"),
        ({"_class_name": "UNet2DConditionModel"}, "model's component"),
        ({"job": "convert", "request": {"target": "x"}}, "a job of this program"),
        ({"entries": [], "is_held": False}, "queue"),
        ([{"path": "a", "image": {}, "text": {}}], "list of concepts"),
        ([{"prompt": "a cat", "seed": 1}], "list of prompts"),
        ([{"id": "a", "instance_data_dir": "b"}], "SimpleTuner"),
    ],
)
def test_another_programs_json_is_named_in_every_reader(tmp_path, document, noun):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    extending = tmp_path / "b.json"
    extending.write_text('{"extends": "a.json"}')
    for each_path in (path, extending):
        error = refused(each_path)
        assert noun in error.what
        assert error.remedy


@each(
    ("name", "content", "noun"),
    [
        ("a.yaml", b"---\njob: extension\nconfig:\n  process:\n    - type: x\n", "ai-toolkit"),
        ("a.toml", b"[general]\nx = 1\n[[datasets]]\nresolution = 512\n", "sd-scripts"),
        ("a.toml", b'pretrained_model_name_or_path = "a"\n', "sd-scripts"),
        ("a.sh", b"accelerate launch train_network.py --lr 1", "command line of another"),
        ("a.env", b"export MODEL_TYPE=lora\nexport X=1\n", "environment variables"),
        ("a.yml", b"# comment\nmodel:\n  path: a\n", "YAML"),
        ("a.txt", b"a cat\na dog --n blurry\n", "a text"),
        ("a.json", b'\x10\0\0\0\0\0\0\0{"a": 1}          ', "a model file"),
        ("a.json", b"PK\x03\x04" + b"\x14" * 99, "an archive"),
    ],
)
def test_what_is_no_json_is_named(tmp_path, name, content, noun):
    (tmp_path / name).write_bytes(content)
    assert noun in refused(tmp_path / name).what


def test_an_image_with_a_workflow_and_a_file_dropped_on_the_window_are_named(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    assert "a PNG image" in refused(tmp_path / "a.png").what
    (tmp_path / "a.toml").write_text("[[datasets]]\n")
    with pytest.raises(UserError, match="image folders of sd-scripts"):
        recognize(tmp_path / "a.toml")


def test_no_key_by_which_others_are_recognized_is_a_setting():
    named = set().union(*(known for _, _, known in KEYS))
    assert named & TrainConfig.model_fields.keys() == set()


@each(
    "text",
    [
        r'{"model": {"path": "C:\Users\me"}}',
        r'{"model": {"path": "C:\users\me"}}',
        r'{"model": {"path": "D:\train\bird"}}',
        r'{"model": {"path": "data\new"}}',
        r'{"data": {"concepts": [{"folder": "D:\test"}]}}',
        '{"data": {"folder": "D:\\train\\",\n"masks": "off"}}',
    ],
)
def test_single_backslashes_have_a_sentence_of_their_own(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    error = refused(tmp_path / "a.json")
    assert "single backslash" in error.what
    assert r'"C:\\Users\\me"' in error.remedy


def test_backslashes_that_are_right_and_line_ends_in_texts_are_no_fault(tmp_path):
    document = {"model": {"path": "C:\\new"}, "notes": "a\nb", "data": {"trigger": "a\tb"}}
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert load_document(tmp_path / "a.json")["notes"] == "a\nb"


@each(
    "text",
    [
        '{"betas": [0.9, 0.99], "fused": true}',
        "{betas: [0.9, 0.99], fused: true}",  # as a shell leaves it
        "{'betas': (0.9, 0.99), 'fused': True}",
        "betas = [0.9, 0.99]\nfused = true",
    ],
)
def test_arguments_may_be_an_object(tmp_path, text):
    (tmp_path / "a.json").write_text('{"optimizer": {"kind": "custom"}}')
    document = load(str(tmp_path / "a.json"), [f"optimizer.arguments={text}"])
    assert resolve(document, source="").optimizer.arguments == "betas = [0.9, 0.99]\nfused = true"
    scheduled = with_overrides({}, ["schedule.kind=custom", f"schedule.arguments={text}"])
    assert "betas" in resolve(scheduled, source="").schedule.arguments
