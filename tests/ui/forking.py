"""A finished run that goes on for longer, as a person asks for it."""

import json
from pathlib import Path

from onetrainer.run.run_folder import RunFolder


def fork_longer_at_the_rate_of_the_end(desk):
    """Fork the displayed run with more steps, and keep the rate of its last step."""
    before = desk.state["folder"]
    _, checkpoint = RunFolder(Path(before)).complete_checkpoints()[-1]
    state = json.loads((checkpoint / "state.json").read_text())
    state["config"]["schedule"] = {"kind": "cosine"}
    (checkpoint / "state.json").write_text(json.dumps(state))
    desk.page("training")
    desk.replace("training.steps", "90")
    desk.page("run")
    desk.click("fork")
    desk.wait_question("answer form")
    desk.click("answer form")
    desk.wait_question("answer keep rate")
    desk.click("answer keep rate")
    desk.wait(lambda: desk.state["folder"] != before, "the longer fork")
    config = json.loads((Path(desk.state["folder"]) / "config.json").read_text())
    assert (config["training"]["steps"], config["schedule"]["kind"]) == (90, "points")
    desk.wait_state(status="finished")
