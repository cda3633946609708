"""The window's own file dialog, where the desktop has none: by the pointer, and by keys alone."""

import pytest

from tests.ui.project import SDXL_PARTS, write_model

HEADING, ROW = 28, 32
"""Heights in the dialog's tables, at 96 dpi."""


@pytest.fixture
def files(tmp_path):
    """A folder of models, and one of images comes with the project."""
    (tmp_path / "models" / "old").mkdir(parents=True)
    write_model(tmp_path / "models" / "large.safetensors", SDXL_PARTS)
    write_model(tmp_path / "models" / "old" / "small.safetensors")
    (tmp_path / "models" / "notes.txt").touch()
    return tmp_path


def rows(desk, name="answer entries"):
    return desk.widget(name)["text"].split("\n")


def facts(desk):
    return desk.widget("answer facts")["text"]


def wait_value(desk, path, chosen):
    desk.wait(lambda: desk.value(path) == str(chosen), "the chosen path")


def click_row(desk, table, row, times=1):
    place = desk.place(table)
    y = place["y"] + HEADING + ROW * rows(desk, table).index(row) + ROW // 2
    desk.click_at(place["x"] + 40, y, times)


def test_images_and_a_model_are_chosen_by_the_pointer(desk, files):
    """Places used before lead back; images are shown, and a model says what it is."""
    desk.page("data")
    desk.replace("data.folder", str(files / "project"))
    desk.click("choose folder data.folder")
    desk.wait_question("answer entries")
    desk.wait(lambda: rows(desk) == ["Up", "pictures/"], "the folder")
    click_row(desk, "answer entries", "pictures/")
    desk.wait(lambda: facts(desk) == "12 images", "what is in the folder")
    desk.wait(lambda: desk.widget("answer picture")["text"] == "1", "the first of them")
    desk.click("answer choose")
    desk.wait_end_of_question("answer entries")
    wait_value(desk, "data.folder", files / "project" / "pictures")

    desk.page("model")
    desk.replace("model.path", str(files / "models" / "gone.safetensors"))
    desk.click("choose file model.path")
    desk.wait_question("answer entries")
    desk.wait(lambda: rows(desk) == ["Up", "old/", "large.safetensors"], "the folder")
    click_row(desk, "answer entries", "large.safetensors")
    desk.wait(lambda: "SDXL" in facts(desk), "what model it is")
    assert "pictures" in rows(desk, "answer places")
    click_row(desk, "answer places", "pictures")
    desk.wait(lambda: rows(desk) == ["Up"], "the folder of before, which has no model")
    click_row(desk, "answer entries", "Up", times=2)
    desk.wait(lambda: "base.safetensors" in rows(desk), "the folder above")
    click_row(desk, "answer entries", "base.safetensors", times=2)
    desk.wait_end_of_question("answer entries")
    wait_value(desk, "model.path", files / "project" / "base.safetensors")


def test_a_model_is_chosen_by_keys_alone_at_the_largest_size(desk, files):
    for scale in (1.1, 1.25, 1.5, 1.75, 2.0):
        desk.key("ctrl+plus")
        desk.wait_state(scale=scale, resizing=False)
    desk.replace("model.path", str(files / "models"))
    for _ in range(9):
        if desk.state["focus"] == "choose file model.path":
            break
        desk.key("Tab")
    desk.key("space")
    desk.wait_question("answer entries")
    _, top, _, height = desk.state["place"]
    for name in ("answer path", "answer places", "answer entries", "answer cancel"):
        place = desk.widget(name)
        assert place["shown"] and place["y"] + place["height"] < top + height, name
    desk.wait(lambda: "old/" in rows(desk), "what is there")
    desk.type("o")
    desk.key("Return")
    desk.wait(lambda: rows(desk) == ["Up", "small.safetensors"], "the folder")
    desk.key("BackSpace")
    desk.wait(lambda: "large.safetensors" in rows(desk), "the folder above")
    desk.key("shift+Tab")
    assert desk.state["focus"] == "answer places"
    desk.key("shift+Tab")
    assert desk.state["focus"] == "answer path"
    desk.key("ctrl+a")
    desk.type("no such folder")
    desk.key("Return")
    desk.wait(lambda: "there is no such file or folder" in facts(desk), "why not")
    desk.key("ctrl+a")
    desk.type("old/small.safetensors")
    desk.key("Return")
    desk.wait_end_of_question("answer entries")
    wait_value(desk, "model.path", files / "models" / "old" / "small.safetensors")
    desk.key("ctrl+0")
    desk.wait_state(scale=1.0, resizing=False)
