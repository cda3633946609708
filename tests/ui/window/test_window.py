"""The window as a person uses it, before a run: real clicks and keys."""

import json
import os
import subprocess
import sys

import pytest
from PIL import Image, ImageStat

from tests.ui.desk import ROOT

NOT_LOADED = ("torch", "numpy", "transformers", "diffusers", "accelerate", "matplotlib")


def test_the_first_start_offers_three_ways_to_begin_and_its_buttons_are_reached_by_tab(open_desk):
    desk = open_desk()
    desk.wait_state(page="welcome")
    desk.key("Tab")
    assert desk.state["focus"] == "presets"
    for _ in range(12):
        if desk.state["focus"] == "page data":
            break
        desk.key("Tab")
    desk.key("space")
    desk.wait_state(page="data")
    desk.click("home")
    desk.wait_state(page="welcome")
    names = [name for name in desk.ask("names")["names"] if name.startswith("welcome")]
    assert names == [
        "welcome open a preset",
        "welcome train on my pictures",
        "welcome try the demo",
    ]
    desk.click("welcome train on my pictures")
    desk.wait_state(page="model", focus="model.path")


def test_an_error_is_said_beside_the_field_while_typing_and_goes_when_put_right(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.replace("training.steps", "many")
    desk.wait(lambda: desk.error("training.steps"), "words beside the field")
    assert '"many" is not allowed here' in desk.error("training.steps")
    assert "Expected a whole number from 1 to" in desk.error("training.steps")
    desk.replace("training.steps", "1_500")
    desk.wait(lambda: desk.value("training.steps") == 1500, "the value")
    assert desk.error("training.steps") == ""
    assert desk.state["changed"] == ["training.steps"]


def test_start_and_save_refuse_with_a_list_whose_entries_lead_to_their_fields(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.replace("optimizer.lr", "0")
    desk.page("output")
    desk.key("F5")
    desk.click("answer problem 0")
    desk.wait_state(page="training", focus="optimizer.lr")
    assert not desk.state["is_running"]
    desk.replace("optimizer.lr", "1e-4")
    desk.replace("training.steps", "many")
    desk.page("output")
    desk.key("ctrl+s")
    desk.click("answer problem 0")
    desk.wait_state(page="training", focus="training.steps")


def test_start_looks_at_files_before_it_starts(open_desk, project):
    (project.parent / "base.safetensors").unlink()
    desk = open_desk(project)
    desk.click("start")
    desk.click("answer problem 0")
    desk.wait_state(page="model", focus="model.path")
    assert "no such file" in desk.error("model.path")


def test_the_wheel_changes_no_value_and_search_jumps_to_an_advanced_setting(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    place = desk.widget("schedule.kind")
    for button in ("4", "5", "5"):
        desk.wheel(place["x"] + 20, place["y"] + 10, button)
    assert desk.value("schedule.kind") == "constant"
    desk.page("output")
    desk.key("ctrl+f")
    desk.type("weight dec")
    desk.wait(lambda: desk.widget("search hits")["shown"], "hits")
    desk.key("Return")
    desk.wait_state(page="training", focus="optimizer.weight_decay")


def test_a_change_is_taken_back_by_undo_and_by_the_button_beside_the_field(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.replace("training.steps", "99")
    desk.key("Tab")
    desk.wait(lambda: desk.value("training.steps") == 99, "the value")
    desk.key("ctrl+z")
    desk.wait(lambda: desk.value("training.steps") == 60, "the value before")
    desk.replace("training.steps", "77")
    desk.wait(lambda: desk.state["changed"] == ["training.steps"], "the change")
    desk.click("reset training.steps")
    desk.wait_state(changed=[])


def test_the_tab_key_visits_controls_in_reading_order(open_desk, project):
    desk = open_desk(project)
    desk.page("model")
    desk.click("model.family")
    desk.key("Escape")
    visited = []
    for _ in range(3):
        desk.key("Tab")
        visited.append(desk.state["focus"])
    assert visited == ["model.path", "choose file model.path", "choose folder model.path"]


def test_a_preset_is_saved_under_a_name_and_one_that_cannot_be_can_be_put_right(open_desk):
    desk = open_desk()
    desk.page("training")
    desk.replace("training.steps", "77")
    desk.key("ctrl+s")
    desk.wait_question("answer name")
    desk.key("ctrl+a")
    desk.type("short one: two")
    desk.key("Return")
    desk.wait_question("answer name")
    desk.rest(3)
    desk.key("End", "BackSpace", "BackSpace", "BackSpace", "BackSpace", "BackSpace")
    desk.key("Return")
    desk.wait_state(preset="short one", changed=[])
    saved = desk.home / "config" / "onetrainer" / "presets" / "short one.json"
    assert json.loads(saved.read_text())["training"] == {"steps": 77}


def test_prompts_are_added_and_removed(open_desk, project):
    desk = open_desk(project)
    desk.page("sampling")
    desk.click("add sampling.prompts")
    desk.wait_state(focus="sampling.prompts.3.prompt")
    desk.type("a fourth thing")
    desk.wait(lambda: desk.value("sampling.prompts.3.prompt") == "a fourth thing", "the new prompt")
    desk.click("up sampling.prompts.3")
    desk.wait(lambda: desk.value("sampling.prompts.2.prompt") == "a fourth thing", "it moved")
    desk.click("remove sampling.prompts.2")
    desk.wait(lambda: len(desk.value("sampling.prompts")) == 3, "three prompts")


def test_what_was_edited_is_there_again_after_a_crash_even_at_a_start_with_the_demo(
    open_desk, project
):
    desk = open_desk(project)
    desk.page("training")
    desk.replace("training.steps", "123")
    kept = desk.home / "config" / "onetrainer" / "window.json"
    desk.wait(lambda: kept.exists() and '"steps": 123' in kept.read_text(), "the draft is kept")
    for arguments in ([], ["--demo"]):
        desk.process.kill()
        desk.process.wait()
        desk = open_desk(*arguments)
        desk.rest()
        assert desk.value("training.steps") == 123
        assert desk.state["page"] == "training"
        assert desk.state["preset"] == "paper"


def test_closing_loses_no_change_and_a_preset_named_at_the_start_says_what_it_replaces(
    open_desk, project
):
    desk = open_desk(project)
    desk.page("training")
    desk.replace("training.steps", "77")
    desk.ask_to_close()
    assert desk.wait_end() == 0
    again = open_desk()
    assert again.value("training.steps") == 77
    assert again.state["changed"] == ["training.steps"]
    again.ask_to_close()
    assert again.wait_end() == 0
    named = open_desk("sdxl/lora")
    named.wait(lambda: "your change was replaced" in named.state["message"], "the message")
    named.key("ctrl+z")
    named.wait_state(preset="paper", changed=["training.steps"])


def test_a_model_that_is_gone_is_told_of_beside_its_field_without_start(open_desk, project):
    (project.parent / "base.safetensors").unlink()
    desk = open_desk(project)
    desk.page("model")
    desk.wait(lambda: "no such file" in desk.error("model.path"), "words beside the field")


def test_the_whole_window_turns_light_and_no_page_loads_a_heavy_library(open_desk):
    desk = open_desk()
    desk.key("ctrl+d")
    desk.wait_state(mode="light")
    image = desk.home / "light.png"

    def is_light() -> bool:
        desk.image(image)
        with Image.open(image) as shot:
            (brightness,) = ImageStat.Stat(shot.convert("L")).mean
        return brightness > 0.75 * 255

    desk.wait(is_light, "a window that is drawn in light")
    for page in ("model", "data", "training", "sampling", "output", "hardware", "run", "runs"):
        desk.page(page)
    desk.key("F1")
    desk.wait_state(page="keys")
    assert set(desk.ask("modules")["modules"]) & set(NOT_LOADED) == set()


@pytest.mark.parametrize(
    ("variables", "words"),
    [({"DISPLAY": ""}, "No window can be opened here"), ({"DISPLAY": ":9999"}, "No window")],
)
def test_without_a_display_one_line_says_so(tmp_path, variables, words):
    done = subprocess.run(
        [sys.executable, "-m", "ui"],
        cwd=ROOT,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_tkinter_one_line_says_so(tmp_path):
    (tmp_path / "tkinter.py").write_text("raise ImportError('no tkinter')\n")
    done = subprocess.run(
        [sys.executable, "-m", "ui"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "tkinter" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_list_of_changes_leads_to_each_and_pages_are_marked_by_their_worst(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.replace("training.steps", "123")
    desk.page("model")
    desk.click("changes")
    desk.click("answer change 0")
    desk.wait_state(page="training", focus="training.steps")
    desk.replace("optimizer.lr", "0.5")
    desk.wait(lambda: desk.state["marks"].get("training") == "Warning ⚠ 1", "the warning")
    desk.replace("training.steps", "many")
    desk.wait(lambda: desk.state["marks"].get("training") == "Danger ⚠ 1", "the error")


def test_changes_replaced_by_a_preset_come_back_by_a_button_or_undo(open_desk, project):
    other = str(ROOT / "configs" / "presets" / "sdxl" / "lora.json")
    changed = ["training.steps", "optimizer.lr"]
    desk = open_desk(project)
    desk.page("training")
    desk.replace("training.steps", "123")
    desk.replace("optimizer.lr", "2e-4")
    desk.ask("load", path=other)
    desk.wait_state(page="training", changed=[])
    assert desk.state["message"] == "Opened lora; your 2 changes were replaced."
    desk.click("undo open")
    desk.wait_state(preset="paper", page="training", message="", changed=changed)
    assert not desk.widget("undo open")["exists"]
    desk.ask("load", path=other)
    desk.wait(lambda: desk.state["message"], "the message again")
    desk.replace("training.steps", "9")
    desk.wait_state(changed=["training.steps"], message="")  # the offer ends, undo does not
    desk.key("ctrl+z", "ctrl+z")
    desk.wait_state(preset="paper", changed=changed)
    assert desk.value("training.steps") == 123
