"""The page of presets as a person uses it: by keys alone, and by pointer."""

import json

import pytest


def open_page(desk):
    desk.key("ctrl+o")
    desk.wait_state(page="presets", focus="find preset")
    desk.wait(lambda: desk.state["presets"]["rows"], "the rows")


def search(desk, text, *, chosen):
    desk.click("find preset")
    desk.key("ctrl+a")
    desk.type(text)
    wait_chosen(desk, chosen)


def wait_chosen(desk, name):
    desk.wait(lambda: desk.state["presets"]["chosen"] == name, name)
    desk.wait(lambda: desk.state["presets"]["is_compared"], "the comparison")


@pytest.fixture
def own(desk):
    """A preset of the user's own."""
    path = desk.home / "config" / "onetrainer" / "presets" / "dogs.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 9, "training": {"steps": 1200}}))
    yield path
    path.unlink(missing_ok=True)


def test_a_preset_is_found_read_and_used_by_keys_alone_and_undone_in_one_step(desk):
    desk.page("training")
    desk.replace("training.steps", "777")
    open_page(desk)
    desk.type("sdxl 24gb")
    wait_chosen(desk, "sdxl/fine-tune-24gb")
    desk.key("Down")
    wait_chosen(desk, "sdxl/lora-24gb")
    shown = desk.state["presets"]
    assert "(1 unsaved)" in shown["title"]
    assert "1500  (was 777, your change)" in shown["changes"]
    assert "SDXL  (was SD 1.5)" in shown["changes"]
    assert "GB on an NVIDIA GPU" in shown["needs"]
    desk.wait(lambda: "On this computer (Fake card)" in desk.state["presets"]["needs"], "its time")
    desk.key("Return")
    desk.wait_state(page="training", preset="sdxl/lora-24gb", changed=[])
    assert "was replaced" in desk.state["message"]
    desk.key("ctrl+z")
    desk.wait_state(preset="paper", changed=["training.steps"])
    assert desk.value("training.steps") == 777


def test_escape_leaves_to_the_page_before_and_changes_nothing(desk):
    for page in ("data", "runs"):
        desk.page(page)
        open_page(desk)
        desk.type("sdxl")
        desk.key("Down", "F1")
        desk.wait_state(page="keys")
        desk.key("ctrl+o")
        desk.wait_state(page="presets")
        desk.key("Escape")
        desk.wait_state(page=page, preset="paper", changed=[])


def test_a_held_preset_is_compared_with_those_selected_next(desk):
    open_page(desk)
    search(desk, "sd15/lora-8gb", chosen="")
    search(desk, "sd15/lora-12gb", chosen="sd15/lora-12gb")
    desk.click("compare preset")
    search(desk, "sd15/lora-24gb", chosen="sd15/lora-24gb")
    shown = desk.state["presets"]
    assert shown["title"].startswith("From “lora-12gb” to this one")
    assert "Batch size" in shown["changes"]
    desk.click("compare preset")
    desk.wait(lambda: desk.state["presets"]["title"].startswith("It would change"), "mine")


def test_an_own_preset_gets_notes_another_name_and_comes_back_after_deletion(desk, own):
    open_page(desk)
    search(desk, "dogs", chosen="dogs")
    desk.click("preset notes")
    desk.type("good at 900")
    desk.click("rename preset")
    desk.wait_question("answer name")
    assert json.loads(own.read_text())["notes"] == "good at 900"
    desk.key("ctrl+a")
    desk.type("bella")
    desk.key("Return")
    desk.wait_end_of_question("answer name")
    search(desk, "bella", chosen="bella")
    renamed = own.with_name("bella.json")
    assert (own.exists(), json.loads(renamed.read_text())["notes"]) == (False, "good at 900")
    desk.click("presets table")
    desk.key("Delete")
    desk.wait(lambda: "bella" not in desk.state["presets"]["rows"], "the deletion")
    assert not renamed.exists()
    desk.click("undo delete")
    desk.wait(lambda: "bella" in desk.state["presets"]["rows"], "the row again")
    assert json.loads(renamed.read_text())["training"] == {"steps": 1200}
    for steps in (1200, 1300):  # as another program writes it
        renamed.write_text(json.dumps({"version": 9, "training": {"steps": steps}}))
        desk.key("Escape")
        open_page(desk)
        search(desk, "bella", chosen="bella")
        desk.wait(lambda text=f"{steps}  (was": text in desk.state["presets"]["changes"], "it")
    renamed.unlink()


def test_a_forecast_is_asked_for_and_fills_the_table(desk, own):
    open_page(desk)
    search(desk, "dogs", chosen="dogs")
    assert "not forecast yet" in desk.state["presets"]["needs"]
    desk.click("forecast preset")
    desk.wait(lambda: "About 14.6 GB" in desk.state["presets"]["needs"], "the forecast")
    desk.key("Escape")
    open_page(desk)
    search(desk, "dogs", chosen="dogs")
    assert "About 14.6 GB" in desk.state["presets"]["needs"]
