"""The page that tries a model, as a person uses it; a fake worker paints."""


def wait_status(desk, text):
    desk.wait(lambda: desk.state["trial"]["status"].startswith(text), text)


GRID = ["00006-grid.png"]


def made(project):
    return sorted(path.name for path in (project.parent / "tried").glob("*.png"))


def test_images_and_grids_are_generated_by_a_model_and_by_a_run_that_trains(desk, project):
    desk.key("F9")
    desk.wait_state(page="trial")
    desk.key("ctrl+Return")
    wait_status(desk, "There is no prompt")
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
    assert made(project) == ["00001-42.png", "00002-43.png", "00003-44.png"]

    desk.replace("trial count", "1")
    for side, times in (("x", 6), ("y", 3)):  # guidance, seed
        desk.click(f"trial {side}")
        desk.wait(lambda: desk.state["focus"] == "None", "the list")
        desk.key(*["Down"] * times, "Return")
    desk.replace("trial x values", "2, , 5")
    desk.key("Return")
    wait_status(desk, "Done.")
    desk.wait(lambda: made(project)[-1:] * (desk.state["trial"]["images"] == 6) == GRID, "the grid")

    desk.click("add run lora")
    desk.wait(lambda: "No run of a LoRA on this" in desk.state["message"], "that there is none")
    desk.replace("trial y values", ",")
    desk.key("Return")
    wait_status(desk, "Seed: the grid has no values")

    desk.replace("trial y values", "7")
    desk.ask("mode", mode="warned")
    desk.key("F5")
    desk.wait_state(page="run")
    desk.key("F9")
    desk.click("generate")
    wait_status(desk, "“paper-001” generates what it trains")
    wait_status(desk, "Done.")
    assert made(project)[-1] == "00009-grid.png"
    desk.replace("trial seed", "9")
    desk.key("ctrl+plus")  # which makes all pages anew
    desk.wait(
        lambda: (desk.state["scale"], desk.widget("trial seed").get("text")) == (1.1, "9"),
        "the seed at another size",
    )
    desk.click("trial seed")  # the message of the size may lie over the button
    desk.key("Return")
    desk.wait(lambda: made(project)[-1] == "00012-grid.png", "a grid of what was typed before")
