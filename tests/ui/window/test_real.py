"""The whole thing: the demo, made and trained with the real worker."""

import json
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_demo_trains_in_the_window_also_when_it_is_stopped_in_between(
    open_desk, tmp_path, is_stopped
):
    demo = tmp_path / "demo"
    desk = open_desk("--demo", demo, worker="")
    desk.wait_state(preset="demo")
    desk.page("training")
    steps = 8 if is_stopped else 4
    for path, value in (("training.steps", f"{steps}"), ("training.batch_size", "1")):
        desk.replace(path, value)
    desk.replace("schedule.warmup_steps", "0")
    desk.page("sampling")
    desk.replace("sampling.every", "4")
    for place in reversed(range(1, len(desk.value("sampling.prompts")))):
        desk.click(f"remove sampling.prompts.{place}")
    desk.page("output")
    # One thread and few steps of sampling, so that a busy machine comes through too.
    desk.key("ctrl+f")
    desk.type("cpu threads")
    desk.key("Return")
    desk.wait_state(focus="hardware.threads")
    desk.replace("hardware.threads", "1")
    desk.key("ctrl+f")
    desk.type("sampling steps")
    desk.key("Return")
    desk.wait_state(focus="sampling.steps")
    desk.replace("sampling.steps", "2")
    desk.page("output")
    desk.replace("output.save_every", "4")
    desk.key("F5")
    desk.wait_state(page="run", is_running=True)
    desk.wait(lambda: desk.state["samples"] >= 2, "a sample after some steps", 180)
    if is_stopped:
        desk.key("shift+F5")
        desk.wait_state(is_running=False, deadline=120)
        if desk.state["status"] == "stopped":
            desk.click("resume")
    desk.wait_state(status="finished", step=steps, deadline=180)
    run = Path(desk.state["folder"])
    assert json.loads((run / "config.json").read_text())["training"]["steps"] == steps
    assert list((run / "output").glob("*.safetensors"))
    assert "Training finished" in desk.state["banner"]
    desk.page("samples")
    assert desk.state["sample_place"][1] == steps
