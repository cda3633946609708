"""`onetrainer demo FOLDER`: complete, repeatable, and harmless to what others keep in a folder."""

import itertools
import subprocess
import sys

import pytest
from PIL import Image

from onetrainer.config.train import VERSION
from onetrainer.demo.images import BACKGROUNDS, COLORS, SHAPES, SIZES, Scene, caption
from onetrainer.demo.write import demo_configs, write_demo
from onetrainer.errors import UserError
from onetrainer.presets.presets import load_document, resolve
from onetrainer.rules.rules import check_rules
from tests.each import each


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("demo") / "new" / "demo").parent


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def config_of(demo, name):
    return resolve(load_document(demo / name), source=name)


def test_demo_is_a_whole_model_captioned_images_and_a_config_of_them(demo):
    for name in ("model_index.json", "unet", "vae", "text_encoder", "scheduler", "tokenizer"):
        assert (demo / "base" / name).exists()
    images = sorted((demo / "pictures").glob("*.png"))
    captions = {image.with_suffix(".txt").read_text().strip() for image in images}
    assert len(images) == 24
    assert all("smiley" in caption for caption in captions)
    for image in images:
        Image.open(image).load()
    config = config_of(demo, "demo.json")
    assert (config.model.path, config.data.folder) == (str(demo / "base"), str(demo / "pictures"))
    # Samples ask for what no image shows.
    assert not captions & {prompt.prompt for prompt in config.sampling.prompts}
    full = config_of(demo, "demo-full.json")  # in the form that can be opened
    assert (full.method.kind, full.output.model_format) == ("full", "diffusers")


@each("name", demo_configs())
def test_every_config_is_of_today_and_without_a_warning(name):
    config = demo_configs()[name]
    assert config["version"] == VERSION
    assert config["description"]
    path = {"data": {**config.get("data", {}), "folder": "/x"}} if "data" in config else {}
    assert check_rules(resolve({**config, **path}, source=name)) == []


def test_reward_demo_trains_what_the_base_can_generate_and_evaluates_other_prompts(demo):
    objective = config_of(demo, "demo-alignprop.json").objective
    scenes = itertools.product(SHAPES, COLORS, BACKGROUNDS, SIZES)
    shapes = {caption(Scene(*scene)): scene[0] for scene in scenes}
    trained, evaluated = (
        text.splitlines() for text in (objective.prompts.text, objective.evaluation.prompts)
    )
    assert {shapes[prompt] for prompt in trained} == set(SHAPES)
    assert len({shapes[prompt] for prompt in evaluated}) == len(evaluated) >= 4
    assert not set(trained) & set(evaluated)
    assert [reward.train for reward in objective.rewards] == [True, False]
    assert objective.rewards[1].folder == str(demo / "pictures")
    assert objective.evaluation.guard == "stop"


def test_writing_again_completes_what_is_missing_and_keeps_what_a_person_changed(tmp_path):
    write_demo(tmp_path)
    before = contents(tmp_path)
    (tmp_path / "demo-vae.json").unlink()
    (tmp_path / "base" / "unet" / "config.json").write_bytes(b"{")  # of another version
    (tmp_path / "pictures" / "smiley-07.png").unlink()
    write_demo(tmp_path)
    assert contents(tmp_path) == before
    mine = ["demo.json", "pictures/smiley-01.txt", "notes.txt"]
    for name in mine:
        (tmp_path / name).write_text("{}")
    write_demo(tmp_path)
    assert contents(tmp_path) == before | {tmp_path / name: b"{}" for name in mine}


def test_anything_else_in_the_place_of_the_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for place, words in ((tmp_path, "holds other files"), (tmp_path / "thesis.txt", "is a file")):
        with pytest.raises(UserError, match=words):
            write_demo(place)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_naming_the_demo_loads_neither_pillow_nor_torch():
    code = (
        "import sys, onetrainer.demo.write;"
        "sys.exit(any(name in sys.modules for name in ('PIL', 'torch', 'tkinter')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
