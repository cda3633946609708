"""The guided start, as a person uses it by pointer and keys, and what leads on to a start."""

import json
import os

from PIL import Image

from onetrainer.demo.write import write_demo
from tests.ui.project import SDXL_PARTS, write_images, write_model


def prepare(home):
    """A folder of images and one of models; their paths."""
    models = home / "ComfyUI" / "models" / "checkpoints"
    models.mkdir(parents=True)
    write_images(home / "mika")
    (home / "mika" / "paper-03.txt").write_text("a red paper boat")
    write_model(models / "base.safetensors")
    write_model(models / "larger.safetensors", SDXL_PARTS)
    return home / "mika", models


def name_models(home):
    """What a window has remembered: the folder of another program."""
    state = home / "config" / "onetrainer" / "window.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"model_folders": [str(home / "ComfyUI")]}))


def wait_next(desk):
    """Waits until the answer is known, and is one."""

    def is_answered():
        button = desk.widget("start next")
        return button["enabled"] and button["kind"] == "primary"

    desk.wait(is_answered, "the answer")


def test_three_questions_lead_from_the_first_page_to_a_run_and_are_undone_at_once(
    open_desk, tmp_path
):
    home = tmp_path / "home"
    images, models = prepare(home)
    name_models(home)
    cut, count = images / "paper-07.png", len([*images.glob("*.png")])
    cut.write_bytes(cut.read_bytes()[:-40])
    desk = open_desk()
    desk.wait_state(page="welcome", marks={})
    assert desk.widget("start")["kind"] == "plain"
    desk.click("welcome train on my images")
    desk.wait_state(page="start", focus="start images")
    assert "folder of images" in desk.widget("start next")["reason"]
    desk.type(str(images))
    # As the run will count them, which leaves out what cannot be decoded.
    found = f"{count - 1} images"
    desk.wait(lambda: desk.widget("start images found")["text"] == found, found)
    assert cut.name in desk.widget("start images warnings")["text"]
    desk.click("start next")
    desk.wait_state(focus="start model")
    desk.wait(lambda: len(desk.ask("models")["models"]) == 4, "the models, published ones too")
    row = desk.place("answer models")
    desk.click_at(row["x"] + 60, row["y"] + 45)
    wait_next(desk)
    desk.click("start next")
    assert "what to make" in desk.widget("start next")["reason"]
    desk.click_and_type("start aim person", "mi")
    desk.key("ctrl+plus")  # the images are looked at again then
    desk.type("ka-k")
    desk.wait_state(scale=1.1, focus="start word")
    desk.key("Return")
    desk.wait_state(preset="sd15/lora-character", changed=[], focus="start now")
    prompts = [entry["prompt"] for entry in desk.value("sampling.prompts")]
    captions = (
        "a paper thing, watercolor",
        "a red paper boat",
        "a paper thing, watercolor, at dusk",
    )
    assert prompts == [f"mika-k, {caption}" for caption in captions]
    assert desk.value("model.path") == str(models / "base.safetensors")
    desk.wait(lambda: desk.state["forecast"], "the forecast")
    counted = f"{count - 1} images in {images}; 1 cannot be used"
    desk.wait(lambda: desk.widget("start value data.folder")["text"] == counted, counted)
    length = "550 steps: 11 images × about 100 each, 2 at a time"
    assert desk.widget("start value training.steps")["text"] == length
    desk.key("ctrl+z")
    desk.wait_state(preset="", changed=[])
    assert (desk.value("model.path"), desk.value("data.folder")) == ("", "")
    desk.key("ctrl+shift+z")
    desk.wait_state(preset="sd15/lora-character")
    assert desk.widget("start now")["kind"] == "primary"
    desk.click("start change output.name")
    desk.wait_state(page="output", focus="output.name")
    desk.replace("output.folder", str(tmp_path / "runs"))
    desk.click("start")
    desk.wait_state(page="run", status="finished")
    assert (tmp_path / "runs" / "mika-k-001").is_dir()


def test_keys_alone_lead_through_the_three_questions(open_desk, tmp_path):
    home = tmp_path / "home"
    images, _ = prepare(home)
    (images / "paper-05.txt").unlink()
    name_models(home)
    desk = open_desk()
    desk.wait_state(page="welcome")
    desk.wait(lambda: desk.widget("welcome train on my images")["shown"], "the first page")
    desk.key("Tab", "Tab", "space")
    desk.wait_state(page="start", focus="start images")
    desk.type(str(images))
    desk.key("Tab", "Tab", "space")  # Next, while the folder is being read
    desk.wait_state(focus="start model")
    desk.wait(lambda: len(desk.ask("models")["models"]) == 4, "the models, published ones too")
    desk.key("Tab", "Tab", "Tab", "Down", "Down")
    desk.key("Return")  # while the model is being read
    desk.wait_state(focus="start aim person")
    desk.key("Down", "Down", "Up", "space")
    wait_next(desk)
    desk.key("shift+Tab")
    for _ in range(12):
        desk.key("Tab")
        if desk.state["focus"] == "start next":
            break
    desk.key("shift+Tab", "space")
    desk.wait_state(focus="start model")
    desk.key("Return")
    desk.wait_state(focus="start aim style")
    desk.key("space")  # pressed again, what is chosen leads on
    desk.wait_state(preset="sdxl/lora-style", focus="start now")
    lead = "Everything is filled in, with this warning. Start, or look at any of it first."
    desk.wait(lambda: desk.widget("start lead")["text"] == lead, "the warning")
    desk.click("start problem")
    desk.wait_state(page="data")
    desk.replace("data.resolution", "700")
    desk.click("guide")
    desk.wait(lambda: "What is red" in desk.widget("start lead")["text"], "the error")
    assert desk.widget("start problems")["text"].startswith("700")
    assert desk.widget("start problem")["text"] == "Go to “Resolution”"
    desk.click("start problem")
    desk.wait_state(page="data", focus="data.resolution")


def test_what_cannot_be_trained_is_said_in_a_sentence_and_next_says_why(open_desk, tmp_path):
    home = tmp_path / "home"
    images, models = prepare(home)
    lora = {f"lora_unet_up_blocks_1_attentions_0_proj_in.lora_{end}.weight": (4, 4) for end in "ab"}
    write_model(models / "style.safetensors", lora)
    name_models(home)
    desk = open_desk()
    desk.click("welcome train on my images")
    desk.click("start images")
    for text, words in ((home / "nowhere", "no such folder"), (models, "has no images")):
        desk.replace("start images", str(text))
        desk.wait(lambda: words in desk.widget("start next")["reason"], "the reason")  # noqa: B023
    desk.replace("start images", str(images))
    desk.click("start next")
    desk.wait(lambda: len(desk.ask("models")["models"]) == 4, "the models, published ones too")
    row = desk.place("answer models")
    desk.click_at(row["x"] + 60, row["y"] + 45)
    wait_next(desk)
    assert desk.widget("answer models")["selected"] == ["base.safetensors"]
    desk.replace("start model", str(models / "style.safetensors"))
    desk.key("Return")
    desk.wait(lambda: "this is a LoRA" in desk.widget("start next")["reason"], "the reason")
    assert desk.state["focus"] == "start model"
    assert desk.widget("answer models")["selected"] == []
    desk.click("start model folder")  # not from what is wrong, nor from the images
    desk.wait_question("answer path")
    assert desk.widget("answer path")["text"] == str(home / "ComfyUI")
    desk.key("Escape")
    desk.wait_end_of_question("answer path")
    desk.replace("start model", "someone/a-model")
    desk.wait(lambda: "family" in desk.widget("start next")["reason"], "the question")
    desk.click("start family")
    desk.wait(lambda: desk.state["focus"] == "None", "the list")
    desk.key("Down", "Return")
    wait_next(desk)


def test_nothing_is_red_before_a_field_is_left_or_start_was_pressed(open_desk, project):
    desk = open_desk()
    desk.wait_state(page="welcome", marks={})
    desk.page("data")
    desk.click("data.folder")
    assert desk.error("data.folder") == ""
    desk.key("Tab")  # to the button that chooses it, which is a part of the field
    assert desk.error("data.folder") == ""
    desk.key("Tab")
    desk.wait(lambda: "No image folder" in desk.error("data.folder"), "the message")
    desk.wait_state(marks={"data": "Danger ! 1"})
    desk.click("next data")
    desk.wait_state(page="model", focus="model.path", marks={"data": "Danger ! 1"})
    desk.key("F5", "ctrl+s")  # at once: the second key finds a dialog that is not shown yet
    desk.wait_question("answer problem 0")
    assert not desk.widget("answer save")["exists"]
    desk.key("Escape")
    desk.wait_state(marks={"data": "Danger ! 1", "model": "Danger ! 1"})
    desk.ask("load", path=str(project))
    desk.wait(lambda: not desk.widget("next model")["shown"], "no further page")
    assert desk.widget("start")["kind"] == "primary"


def test_the_form_offers_the_models_of_named_folders_too(begin, project):
    models = project.parent / "models"
    models.mkdir()
    write_model(models / "larger.safetensors", SDXL_PARTS)
    desk = begin(project)
    desk.ask("name models", path=str(models))
    desk.click("choose known model.path")
    desk.wait_question("answer models")
    desk.wait(lambda: desk.ask("models")["models"], "the models")
    assert "Select a model" in desk.widget("answer choose")["reason"]
    desk.key("Down", "Return")
    desk.wait_end_of_question("answer models")
    desk.wait(lambda: desk.value("model.path") == str(models / "larger.safetensors"), "the model")


def test_the_guide_leaves_the_demo_behind_and_lists_published_models(open_desk, tmp_path):
    home = tmp_path / "home"
    images, _ = prepare(home)
    demo = write_demo(tmp_path / "demo")
    desk = open_desk(demo)
    desk.wait_state(page="model", preset="demo")
    assert desk.widget("start")["kind"] == "primary"
    desk.click("guide")
    desk.wait_state(page="start", focus="start images")
    assert desk.widget("start")["kind"] == "plain"
    assert "not in the settings yet" in desk.widget("start")["reason"]
    desk.type(str(images))
    wait_next(desk)
    desk.key("F5")
    desk.wait(lambda: "not in the settings yet" in desk.state["message"], "why the demo is not")
    desk.key("Return")
    desk.wait_state(focus="start model")
    desk.wait(lambda: len(desk.ask("models")["models"]) == 2, "the published models")
    desk.type(desk.ask("models")["models"][0])
    wait_next(desk)
    desk.key("Return")
    desk.wait_state(focus="start aim person")
    desk.key("Down", "space")
    desk.wait(lambda: desk.widget("start next")["enabled"], "the aim")
    desk.click("start next")
    desk.wait_state(preset="sd15/lora-style")
    assert desk.value("output.folder") == "runs"


def test_images_are_decoded_only_while_the_guide_is_on_the_screen(open_desk, tmp_path):
    folder, count = tmp_path / "many", 200
    folder.mkdir()
    Image.new("RGB", (2400, 2400)).save(folder / "0.png")
    for index in range(1, count):
        os.link(folder / "0.png", folder / f"{index}.png")
    desk = open_desk()
    desk.click("welcome train on my images")
    desk.wait_state(focus="start images")

    def checked():
        words = desk.widget("start images found")["text"].split()
        return int(words[2]) if words[3:5] == ["of", "them"] else -1

    desk.type(str(folder))
    desk.wait(lambda: checked() >= 0, "decoding")
    before = checked()
    desk.page("model")
    desk.rest()
    desk.click("guide")
    # Otherwise all would be decoded by now.
    desk.wait(lambda: checked() > before, "decoding again")
