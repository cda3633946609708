"""Models of every family in the window: recognized, named, and put right with one click."""

import json

from onetrainer.presets.presets import BUILT_IN
from tests.ui.project import SDXL_PARTS, write_model


def test_a_model_of_another_family_is_put_right_with_one_click_or_by_keyboard(open_desk, project):
    path = write_model(project.parent / "xl.safetensors", SDXL_PARTS)
    desk = open_desk(project)
    desk.page("model")
    desk.replace("model.path", str(path))
    desk.wait(lambda: "this is an SDXL model" in desk.error("model.family"), "words at the family")
    assert "Choose “SDXL” as “Model family”" in desk.error("model.family")
    assert desk.value("model.family") == "sd15"
    assert desk.widget("fix model.family")["text"] == "Use SDXL"
    desk.click("fix model.family")
    desk.wait_state(focus="model.family")
    desk.wait(lambda: desk.value("model.family") == "sdxl", "the family put right")
    desk.wait(lambda: not desk.error("model.family"), "the words gone")
    desk.key("ctrl+z")
    desk.wait(lambda: desk.value("model.family") == "sd15", "the family before")
    desk.wait(lambda: desk.error("model.family"), "the words again")
    desk.wait(lambda: desk.widget("fix model.family").get("shown"), "the button again")
    desk.click("model.family")
    desk.key("Escape", "Tab")
    assert desk.state["focus"] == "fix model.family"
    desk.key("space")
    desk.wait_state(focus="model.family")
    desk.wait(lambda: desk.value("model.family") == "sdxl", "the family put right by keyboard")


def test_images_too_small_for_sdxl_are_put_right_with_one_click(open_desk, project):
    document = json.loads(project.read_text())
    project.write_text(json.dumps(document | {"model": {"family": "sdxl"}}))
    desk = open_desk(project)
    desk.page("data")
    desk.wait(lambda: desk.widget("fix data.resolution").get("shown"), "the button")
    assert desk.widget("fix data.resolution")["text"] == "Use 1024"
    desk.click("fix data.resolution")
    desk.wait(lambda: desk.value("data.resolution") == 1024, "the resolution put right")


def test_a_preset_of_another_family_says_so_and_starts_nothing(open_desk, project):
    desk = open_desk(project)
    desk.ask("load", path=str(BUILT_IN / "sdxl" / "lora.json"))
    desk.page("model")
    desk.wait(lambda: desk.error("model.family"), "words at the family")
    assert desk.widget("fix model.family")["text"] == "Use SD 1.5"
    desk.key("F5")
    desk.click("answer problem 0")
    desk.wait_state(page="model", focus="model.family", is_running=False)


def test_a_name_of_the_hub_is_taken_as_it_is_typed(open_desk, project):
    desk = open_desk(project)
    desk.page("model")
    desk.replace("model.path", "nobody-at-all/no-such-model")
    desk.key("Tab")
    desk.wait_state(problems=[])
    assert desk.value("model.path") == "nobody-at-all/no-such-model"


def test_the_words_of_the_first_page_fit_into_a_small_window(open_desk):
    desk = open_desk()
    desk.wait_state(page="welcome")
    for size in (1280, 960):
        desk.resize(size, 640)
        desk.rest()
        for place in range(3):
            words = desk.widget(f"text of way {place}")
            assert words["wanted_width"] <= words["width"]
