"""`onetrainer demo FOLDER`: complete, repeatable, and harmless to what others keep in a folder."""

import itertools
import subprocess
import sys

import pytest
from PIL import Image

from onetrainer.demo.captions import caption
from onetrainer.demo.configs import REWARDED, VALIDATION, demo_config, demo_configs
from onetrainer.demo.images import BACKGROUNDS, COLORS, SHAPES, SIZES, Scene
from onetrainer.demo.write import write_demo
from onetrainer.errors import UserError
from onetrainer.presets.presets import load_document, resolve
from onetrainer.rules.rules import check_rules


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("demo") / "new" / "demo")


def test_every_image_has_a_caption(demo):
    images = sorted(demo.images.glob("*.png"))

    assert len(images) == 24
    for image in images:
        assert "smiley" in image.with_suffix(".txt").read_text()
        Image.open(image).load()


def test_base_is_a_whole_model_folder(demo):
    for name in ("model_index.json", "unet", "vae", "text_encoder", "scheduler", "tokenizer"):
        assert (demo.base / name).exists()


def test_config_is_valid_and_points_into_the_folder(demo):
    config = resolve(load_document(demo.config), source="demo.json")

    assert config.model.path == str(demo.base)
    assert config.data.folder == str(demo.images)


def test_fine_tuned_demo_is_written_in_the_form_that_can_be_opened(demo):
    path = demo.folder / "demo-full.json"
    config = resolve(load_document(path), source=path.name)

    assert (config.method.kind, config.output.model_format) == ("full", "diffusers")


def test_samples_ask_for_what_no_image_shows(demo):
    captions = {path.read_text().strip() for path in demo.images.glob("*.txt")}

    assert not captions & {prompt["prompt"] for prompt in demo_config()["sampling"]["prompts"]}


def test_reward_demo_asks_for_what_the_base_can_draw_and_watches_other_prompts():
    scenes = itertools.product(SHAPES, COLORS, BACKGROUNDS, SIZES)
    captions = {caption(Scene(*scene)): scene[0] for scene in scenes}

    assert {captions[prompt] for prompt in REWARDED} == set(SHAPES)
    assert len({captions[prompt] for prompt in VALIDATION}) == len(VALIDATION) >= 4
    assert not set(REWARDED) & set(VALIDATION)


def test_reward_demo_is_guarded_and_learns_no_images(demo):
    config = resolve(load_document(demo.folder / "demo-alignprop.json"), source="demo")

    assert [one.train for one in config.objective.rewards] == [True, False]
    assert config.objective.rewards[1].folder == str(demo.images)
    assert config.objective.evaluation.guard == "stop"
    assert config.data.folder == ""


def test_writing_again_changes_nothing(tmp_path):
    write_demo(tmp_path)
    before = contents(tmp_path)

    write_demo(tmp_path)

    assert contents(tmp_path) == before


def test_interrupted_writing_is_completed(tmp_path):
    complete = write_demo(tmp_path)
    before = contents(tmp_path)
    complete.config.unlink()
    (complete.base / "unet" / "config.json").write_bytes(b"{")
    (complete.images / "smiley-07.png").unlink()

    write_demo(tmp_path)

    assert contents(tmp_path) == before


def test_what_a_person_changed_is_kept(tmp_path):
    files = write_demo(tmp_path)
    files.config.write_text("{}")
    (files.images / "smiley-01.txt").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")

    write_demo(tmp_path)

    assert files.config.read_text() == "{}"
    assert (files.images / "smiley-01.txt").read_text() == "mine"
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")

    with pytest.raises(UserError, match="holds other files"):
        write_demo(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "demo").write_text("mine")

    with pytest.raises(UserError, match="is a file"):
        write_demo(tmp_path / "demo")


def test_each_call_gives_a_config_of_its_own():
    demo_config()["model"]["path"] = "elsewhere"

    assert demo_config()["model"]["path"] == "base"


def test_naming_the_demo_loads_neither_pillow_nor_torch():
    code = (
        "import sys, onetrainer.demo.write;"
        "sys.exit(any(name in sys.modules for name in ('PIL', 'torch', 'tkinter')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", demo_configs())
def test_no_demo_config_is_warned_of(demo, name):
    config = resolve(load_document(demo.folder / name), source=name)
    assert check_rules(config) == []
