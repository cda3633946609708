"""Files dragged from another program onto the window, by the pointer and X's own protocol."""

import itertools
import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from onetrainer import ROOT
from tests.ui.drag_source import PLACE
from tests.ui.drop_box import PLACE as BOX
from tests.ui.project import SDXL_PARTS, write_images, write_model

SOON = {"ui.actions.dropping._ENABLE_AFTER_MS": 1}
LORA = {
    "lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": (4, 1280, 1, 1),
    "lora_unet_mid_block_attentions_0_proj_in.lora_up.weight": (1280, 4, 1, 1),
    "lora_unet_mid_block_attentions_0_proj_in.alpha": (1,),
}


@contextmanager
def dragged(desk, *files):
    """Holds files over the window; a function that waits for the end of the drag and gives it."""
    command = [sys.executable, "-m", "tests.ui.drag_source", *map(str, files)]
    how = {"cwd": ROOT, "env": desk.environment, "text": True, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **how) as source:
        assert source.stdout.readline() == "ready\n"
        desk.drag(PLACE, (500, 400), lambda: desk.widget("drop highlight").get("shown"))
        assert source.stdout.readline() == "taken\n"
        yield
        desk.let_go()
        assert source.stdout.readline() == "copy\n"
        source.terminate()
    desk.wait(lambda: not desk.widget("drop highlight")["shown"], "the end of the drag")


def drop(desk, *files):
    with dragged(desk, *files):
        pass


@pytest.fixture
def desk(open_desk):
    return open_desk(constants=SOON)


def test_images_and_a_model_are_dropped_together_and_the_drop_is_undone(desk, tmp_path):
    cats = tmp_path / "my cats äö"
    write_images(cats)
    model = write_model(tmp_path / "large one.safetensors", SDXL_PARTS)
    drop(desk, cats / "paper-00.png", model)
    desk.wait(lambda: desk.value("model.path"), "the model")
    assert desk.value("data.folder") == str(cats)
    assert (desk.value("model.path"), desk.value("model.family")) == (str(model), "sdxl")
    assert desk.state["page"] == "model"
    assert desk.state["message"].endswith("“Model family” was set to SDXL, which it is.")
    desk.click("undo drop")
    assert (desk.value("model.path"), desk.value("model.family")) == ("", "sd15")
    assert desk.value("data.folder") == str(cats)


def test_what_is_dropped_on_the_guided_start_answers_its_question(desk, tmp_path):
    write_images(tmp_path / "cats")
    model = write_model(tmp_path / "base.safetensors")
    desk.click("welcome train on my images")
    desk.wait_state(page="start")
    drop(desk, tmp_path / "cats")
    desk.wait(lambda: desk.widget("start next")["enabled"], "the images")
    drop(desk, model)
    desk.wait_state(focus="start model")
    desk.wait(lambda: desk.widget("start next")["enabled"], "the model")
    assert (desk.state["page"], desk.value("data.folder")) == ("start", "")


def test_another_folder_is_added_or_takes_the_place_of_the_first_as_a_person_says(desk, tmp_path):
    for name in ("cats", "dogs", "birds"):
        write_images(tmp_path / name)
    drop(desk, tmp_path / "cats")
    desk.wait(lambda: desk.value("data.folder") == str(tmp_path / "cats"), "the folder")
    drop(desk, tmp_path / "dogs")
    desk.wait_question("answer add")
    desk.key("Return")
    desk.wait(lambda: desk.value("data.concepts"), "the second folder")
    assert [each["folder"] for each in desk.value("data.concepts")] == [str(tmp_path / "dogs")]
    drop(desk, tmp_path / "dogs")
    desk.wait_state(message="“dogs” is already trained on.")
    drop(desk, tmp_path / "birds")
    desk.wait_question("answer replace")  # until then it may move
    desk.click("answer replace")
    desk.wait(lambda: desk.value("data.folder") == str(tmp_path / "birds"), "the third")


def test_a_preset_is_loaded_and_the_changes_it_replaces_can_be_brought_back(desk, project):
    desk.page("training")
    desk.replace("training.steps", "77")
    desk.key("Tab")
    drop(desk, project)
    desk.wait_state(preset="paper")
    assert desk.state["message"] == "Opened paper; your change was replaced."
    desk.click("undo open")
    assert desk.value("training.steps") == 77


def test_a_lora_is_continued_where_the_base_model_is_what_it_was_made_for(desk, tmp_path):
    lora = write_model(tmp_path / "style.safetensors", LORA)
    drop(desk, lora)
    desk.wait(lambda: desk.value("method.start_from") == str(lora), "the LoRA")


def test_a_run_is_shown_and_what_is_of_no_use_is_refused_with_the_reason(desk, tmp_path):
    run = tmp_path / "old-001"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.json").write_text(json.dumps({"model": {"path": "x"}}))
    drop(desk, run)
    desk.wait_state(page="run", folder=str(run))
    notes = tmp_path / "notes.txt"
    notes.write_text("hello")
    drop(desk, notes)
    desk.wait_question("answer ok")
    desk.key("Return")


def test_a_sample_is_dragged_into_another_program_and_never_on_its_own_window(open_desk, project):
    desk = open_desk(project, constants={"ui.widgets.drag_source._ENABLE_AFTER_MS": 1} | SOON)
    desk.click("start")
    desk.wait_state(status="finished")
    desk.page("samples")
    place = desk.place("gallery")
    start = place["x"] + place["width"] - 40, place["y"] + 80
    command = [sys.executable, "-m", "tests.ui.drop_box"]
    how = {"cwd": ROOT, "env": desk.environment, "text": True, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **how) as box:
        assert box.stdout.readline() == "ready\n"
        desk.drag(start, (500, 400), lambda: desk.state["is_dragging"])
        assert not desk.widget("drop highlight").get("shown")
        turns = itertools.count()

        def is_over() -> bool:
            turn = next(turns)
            desk._hands.move(BOX[0] + turn % 7, BOX[1])
            return turn > 20

        desk.wait(is_over, "the drag over the box")
        desk.let_go()
        assert box.stdout.readline().endswith("/samples/step-000060-00.png\n")
        box.terminate()
    desk.wait(lambda: not desk.state["is_dragging"], "the end of the drag")
