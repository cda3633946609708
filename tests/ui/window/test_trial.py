"""The page that tries a model, as a person uses it; a fake worker paints."""

from pathlib import Path


def wait_status(desk, text):
    desk.wait(lambda: desk.state["trial"]["status"].startswith(text), text)


def test_wrong_values_are_said_and_images_appear_and_are_gone_through_by_keys(desk):
    desk.key("F9")
    desk.wait_state(page="trial")
    desk.click("generate")
    wait_status(desk, "There is no prompt")
    desk.click("trial prompt")
    desk.type("a red cat")
    desk.replace("trial width", "500")
    desk.key("Return")
    wait_status(desk, "Width: ")
    desk.replace("trial width", "512")
    desk.ask("mode", mode="failed")
    desk.click("generate")
    wait_status(desk, "model.safetensors: this is an embedding")
    assert desk.state["trial"]["button"] == "Generate"

    desk.ask("mode", mode="ok")
    desk.replace("trial count", "3")
    desk.key("Return")
    wait_status(desk, "Done.")
    assert (desk.state["trial"]["images"], desk.state["trial"]["shown"]) == (3, 2)
    desk.click("trial image")
    desk.key("Left", "Left")
    assert desk.state["trial"]["shown"] == 0
    made = sorted(Path(desk.home.parent).rglob("tried/*.png"))
    assert [path.name for path in made] == ["00001-42.png", "00002-43.png", "00003-44.png"]
