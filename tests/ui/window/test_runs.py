"""The window as a person uses it around a run: real clicks and keys, a fake worker."""

import json
import time
from pathlib import Path

from onetrainer.run.event_log import EventReader
from onetrainer.run.events import Sample, Started
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.starred import starred_steps
from tests.ui.forking import fork_longer_at_the_rate_of_the_end
from tests.ui.project import PROMPTS, write_project

SAMPLE_BUDGET = 20
"""Turns of the window's heartbeat, of which an idle machine makes as many in a second."""
SILENCE = 1.0
CODE = "def mine(pictures, prompts):\n    return pictures.mean((1, 2, 3))\n"


def start(desk):
    desk.click("start")
    desk.wait_state(page="run", is_running=True)


def wait_for_steps(desk):
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")


def pause(desk):
    desk.click("pause")
    desk.wait_state(status="paused", is_running=False)


def tab_to(desk, name, key="Tab"):
    for _ in range(9):
        if desk.state["focus"] == name:
            return
        desk.key(key)
    raise AssertionError(f"{key} does not lead to {name}")


def newest_sample(desk):
    events = EventReader(Path(desk.state["folder"]) / "events.jsonl").read().events
    return max(event.step for event in events if isinstance(event, Sample))


def test_a_run_is_started_followed_listed_and_its_samples_viewed(desk):
    start(desk)
    desk.wait_state(status="finished", step=60)
    assert "Training finished" in desk.state["banner"]
    assert "paper.safetensors" in desk.state["banner"]
    assert desk.state["validation"] == ""  # which this run does not do
    desk.page("samples")
    assert desk.state["sample_place"] == [0, 60]
    desk.click("timeline")
    desk.key("Home", "Right", "Right", "Down")
    assert desk.state["sample_place"] == [1, 20]
    place = desk.place("timeline")
    desk.click_at(place["x"] + place["width"] - 17, place["y"] + 15)
    assert desk.state["sample_place"] == [1, 60]
    desk.key("s")
    desk.wait(lambda: "Step 60 is starred: its checkpoint is kept" in desk.state["message"], "star")
    assert starred_steps(RunFolder(Path(desk.state["folder"]))) == {60}
    desk.key("ctrl+c")
    desk.wait(lambda: desk.state["message"].endswith("/samples/step-000060-01.png"), "the copy")
    desk.click("save grid")
    grid = Path(desk.state["folder"]) / "exported" / "samples-001.png"
    desk.wait(grid.exists, "the grid")
    desk.page("runs")
    desk.wait(lambda: len(desk.state["runs"]["names"]) == 1, "the run in the table")
    place = desk.place("runs table")
    desk.click_at(place["x"] + 80, place["y"] + 45)
    desk.wait(lambda: desk.widget("show run")["enabled"], "the run is chosen")
    desk.click("show run")
    desk.wait_state(page="run", status="finished")
    before = desk.state["folder"]
    desk.click("fork")
    desk.wait_question("answer own settings")
    desk.key("Return")
    desk.wait(lambda: desk.state["folder"] != before, "the fork")
    desk.wait_state(page="run", status="finished", step=60)
    events = EventReader(Path(desk.state["folder"], "events.jsonl")).read().events
    assert [event.step for event in events if isinstance(event, Started)] == [0, 60]
    fork_longer_at_the_rate_of_the_end(desk)
    desk.page("output")  # another folder for runs does not hide those of before
    desk.replace("output.folder", str(desk.home / "elsewhere"))
    desk.page("runs")
    desk.wait(lambda: len(desk.state["runs"]["names"]) == 3, "all runs in the table")


def test_a_run_is_paused_resumed_and_stopped_while_settings_are_edited(begin, long_project):
    desk = begin(long_project, "slow")
    start(desk)
    wait_for_steps(desk)
    assert "is running" in desk.widget("start")["reason"]
    desk.page("training")
    desk.replace("training.steps", "5")
    desk.wait(lambda: desk.value("training.steps") == 5, "the value")
    config = json.loads((Path(desk.state["folder"]) / "config.json").read_text())
    assert config["training"]["steps"] == 20_000
    desk.page("run")
    desk.key("F5")
    desk.wait(lambda: "“paper-001” is running" in desk.state["message"], "the offer of the queue")
    tab_to(desk, "message bar", "shift+Tab")
    desk.key("Return")
    desk.wait(lambda: desk.state["message"] == "“paper-002” was added to the page Queue.", "it")
    assert desk.state["page"] == "queue"
    desk.page("run")
    tab_to(desk, "pause")
    desk.key("space")
    desk.wait_state(status="paused", is_running=False)
    paused_at = desk.state["step"]
    # What most people want next is the one main button.
    desk.wait(lambda: desk.widget("resume")["enabled"], "the offer to resume")
    desk.wait_state(focus="resume")
    assert [desk.widget(name)["kind"] for name in ("resume", "start")] == ["primary", "plain"]
    desk.page("training")
    assert desk.widget("start")["kind"] == "primary"
    desk.page("run")
    desk.click("resume")
    desk.wait_state(is_running=True, status="running")
    desk.wait(lambda: desk.state["step"] > paused_at, "further steps")
    state = desk.state
    assert state["points"] == state["step"]
    desk.click("stop")
    desk.wait_state(status="stopped", is_running=False)
    assert f"step {desk.state['step']}" in desk.state["banner"]


def test_start_with_a_paused_run_asks_which_of_the_two_is_meant(begin, long_project):
    desk = begin(long_project, "slow")
    start(desk)
    wait_for_steps(desk)
    folder = desk.state["folder"]
    for answer in ("resume", "new"):
        pause(desk)
        desk.click("start")
        desk.click(f"answer {answer}")
        desk.wait_state(is_running=True, status="running")
        assert (desk.state["folder"] == folder) == (answer == "resume")


def test_the_settings_of_a_run_are_saved_under_another_name(desk):
    start(desk)
    desk.wait_state(status="finished")
    config = Path(desk.state["folder"]) / "config.json"
    kept = config.read_text()
    desk.ask("load", path=str(config))
    desk.page("training")
    desk.replace("training.steps", "77")
    desk.key("ctrl+s")
    desk.wait_question("answer name")
    desk.key("Return")
    desk.wait_state(preset="paper-001", changed=[])
    assert config.read_text() == kept
    assert (desk.home / "config" / "onetrainer" / "presets" / "paper-001.json").exists()


def test_a_requested_sample_is_shown_without_taking_the_keyboard(begin, long_project):
    config = json.loads(long_project.read_text())
    config["sampling"] |= {"every": 0, "at_start": False}
    long_project.write_text(json.dumps(config))
    desk = begin(long_project, "slow")
    start(desk)
    wait_for_steps(desk)
    assert desk.state["samples"] == 0
    desk.click("sample now")
    desk.page("samples")
    desk.key("ctrl+f")
    desk.wait(lambda: desk.state["samples"] == 3, "three samples")
    desk.type("warm")
    desk.wait(lambda: desk.widget("search hits")["shown"], "hits")


def test_a_run_that_crashes_says_why_and_its_log_is_folded_and_bounded(begin, project):
    desk = begin(project, "segv")
    start(desk)
    desk.wait_state(status="died")
    desk.wait(lambda: "crashed (SIGSEGV) in a library or a driver" in desk.state["banner"], "why")
    assert "null pointer" not in desk.state["banner"]
    desk.click("show log")
    desk.wait(lambda: desk.widget("open log")["shown"], "the log")
    assert desk.state["banner"].endswith("fake worker: about to touch a null pointer")
    assert 40 < desk.widget("log lines")["height"] < 200
    assert desk.state["banner_buttons"][-2:] == ["Hide log", "Make report"]
    desk.click("show log")
    desk.wait(lambda: "null pointer" not in desk.state["banner"], "the folded log")
    assert desk.widget("start")["enabled"]
    desk.page("training")


def test_a_finished_run_leads_to_trying_it_and_to_the_check_of_what_it_left_out(begin, project):
    desk = begin(project)
    start(desk)
    desk.wait_state(status="finished")
    desk.wait(lambda: "Check the images" in desk.state["banner_buttons"], "the button")
    assert desk.state["banner_buttons"][0] == "Try it"
    desk.click("banner place 0")
    desk.wait_state(page="trial")
    desk.wait(lambda: desk.widget("trial strength").get("shown"), "the LoRA in the list")
    desk.type("!")
    assert desk.widget("trial prompt")["text"].strip() == f"{PROMPTS[0]}!"
    desk.page("run")
    desk.click("banner place 1")
    desk.wait_state(page="preview")
    desk.wait(lambda: desk.widget("check images")["shown"], "the check")


def test_a_run_that_failed_leads_to_the_setting_and_goes_on_with_its_new_value(begin, project):
    desk = begin(project, "oom")
    start(desk)
    desk.wait_state(status="failed")
    title, text = desk.state["banner"].splitlines()
    assert title == "The GPU ran out of memory (8.0 GB)."
    assert text.endswith("or set “Batch size” to 1.")
    assert desk.state["banner_buttons"] == ["Go to “Batch size”", "Show log", "Make report"]
    desk.click("remedy")
    desk.wait_state(page="training", focus="training.batch_size")
    desk.key("ctrl+a")
    desk.type("1")
    assert desk.state["message"] == "Change “Batch size”, then go on from step 20 with it."
    desk.ask("mode", mode="ok")
    desk.click("apply and resume")
    desk.wait_state(page="run", status="finished", step=60, message="")
    config = json.loads((Path(desk.state["folder"]) / "config.json").read_text())
    assert config["training"]["batch_size"] == 1
    events = EventReader(Path(desk.state["folder"]) / "events.jsonl").read().events
    assert [event.step for event in events if isinstance(event, Started)] == [0, 20]


def test_one_s_own_code_is_run_and_resumed_when_changed_only_after_a_yes(begin, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(CODE)
    reward = {"reward": "function", "function": f"{own}:mine", "has_gradient": True}
    prompts = {"text": "\n".join(f"a photo of animal {number}" for number in range(20))}
    objective = {"kind": "alignprop", "rewards": [reward], "prompts": prompts}
    project = write_project(tmp_path / "project", objective=objective, training={"steps": 20_000})
    desk = begin(project, "slow")
    desk.key("F5")
    desk.wait_question("answer run")
    desk.key("Return")  # the first answer is no
    desk.wait_state(message="Training was not started, and none of this code was run.")
    assert not desk.state["is_running"]
    desk.key("F5")
    desk.click("answer run")
    desk.wait(lambda: desk.state["step"] > 0, "a step")
    pause(desk)
    own.write_text(CODE + "# another\n")
    desk.click("resume")
    desk.wait_question("answer run")
    desk.key("Escape")
    assert desk.state["status"] == "paused"
    desk.click("resume")
    desk.click("answer run")
    desk.wait_state(is_running=True)


def test_a_run_says_what_validation_images_show(begin, tmp_path):
    validation = {"use": True, "every": 10}
    desk = begin(write_project(tmp_path / "project", validation=validation, ema={"use": True}))
    desk.click("start")
    desk.wait_state(status="finished")
    desk.rest(4)
    verdict, words, *facts = desk.state["validation"].splitlines()
    assert verdict == "overfitting"
    # The fake worker's loss is lowest after 0.598 of the run.
    assert words == "It begins to memorize: the loss was lowest at step 40."
    assert facts == []  # below a banner there is little room
    desk.resize(1280, 980)
    desk.wait(lambda: len(desk.state["validation"].splitlines()) > 2, "details where there is room")
    desk.resize(1280, 800)
    desk.wait(lambda: len(desk.state["validation"].splitlines()) == 2, "room for the chart")
    desk.click("validation details")
    facts = desk.state["validation"].splitlines()[2:]
    assert facts[0].startswith("Loss now: 0.14")
    assert facts[2].startswith("Lowest: step 40 · 0.14")


def test_a_run_that_ended_early_can_be_resumed_and_says_what_decides(begin, tmp_path):
    patient = {"use": True, "every": 10, "patience": 1}
    desk = begin(write_project(tmp_path / "project", validation=patient))
    desk.click("start")
    # The loss is lowest at step 40 of 60.
    desk.wait_state(status="finished", step=50)
    desk.wait(lambda: desk.widget("resume")["enabled"], "the offer to resume")
    title, *lines = desk.state["banner"].splitlines()
    assert title == "Training ended early"
    assert any(line.startswith("“Early stopping after” was reached.") for line in lines)
    assert "Go to “Early stopping after”" in desk.state["banner_buttons"]
    desk.click("validation details")
    desk.rest(4)
    assert desk.widget("loss chart")["height"] >= 172  # room for two panels, below a banner too
    desk.click("resume")
    desk.wait_state(status="finished", step=60)
    desk.wait(
        lambda: desk.widget("resume")["reason"] == "This run has finished all its steps.", "why"
    )


def test_closing_during_a_run_asks_and_a_run_left_alone_is_attached_to_again(
    open_desk, long_project
):
    desk = open_desk(long_project, mode="slow")
    start(desk)
    wait_for_steps(desk)
    desk.ask_to_close()
    desk.wait_question("answer keep")
    desk.key("Escape")
    desk.wait_end_of_question("answer keep")
    assert desk.state["is_running"]
    seen = desk.state["step"]
    desk.ask_to_close()
    desk.click("answer keep")
    assert desk.wait_end() == 0
    again = open_desk(mode="slow")
    again.wait_state(page="run", is_running=True, status="running")
    again.wait(lambda: again.state["step"] > seen, "the run going on")
    folder = again.state["folder"]
    again.ask_to_close()
    again.click("answer stop")
    assert again.wait_end() == 0
    events = (Path(folder) / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["type"] == "Stopped"


def test_a_new_sample_is_on_the_screen_soon_after_its_event(open_desk, long_project):
    desk = open_desk(long_project, mode="slow", constants={"ui.background.pump.TICK_MS": 50})
    start(desk)
    desk.page("samples")
    desk.wait(lambda: desk.state["sample_shown"] >= 10, "the first sample while training")
    before = desk.state["sample_shown"]
    desk.wait(lambda: before < newest_sample(desk), "the event of the next sample")
    reported = desk.state["turns"]
    desk.wait(lambda: desk.state["sample_shown"] > before, "the next sample")
    assert desk.state["turns"] - reported < SAMPLE_BUDGET


def test_a_double_click_does_not_press_what_came_in_its_place_and_a_hanging_run_is_killed(
    open_desk, long_project
):
    constants = {"ui.background.session.SILENCE": SILENCE}
    desk = open_desk(long_project, mode="slow", constants=constants)
    start(desk)
    wait_for_steps(desk)
    pause(desk)
    desk.wait(lambda: desk.widget("resume")["enabled"], "the offer to resume")
    place = desk.place("resume")
    desk.ask("mode", mode="hang")
    desk.ask("ignore clicks")  # until further notice: a busy machine takes long between the two
    point = place["x"] + place["width"] - 15, place["y"] + 10
    desk.click_at(*point)
    desk.wait(lambda: desk.widget("pause")["shown"], "what comes in its place")
    desk.click_at(*point)
    desk.rest(10)
    assert [desk.widget(name)["text"] for name in ("pause", "stop")] == ["Pause", "Stop and save"]
    desk.ask("take clicks")
    began = time.monotonic()
    desk.click("stop")
    is_offered = desk.widget("end process")["shown"]
    assert not is_offered or time.monotonic() - began > SILENCE
    desk.wait(lambda: desk.widget("end process")["shown"], "the offer to end the process")
    assert "trained since step" in desk.state["banner"]
    desk.click("end process")
    desk.wait_state(status="died")
    assert "The process was ended" in desk.state["banner"]
    assert "SIGKILL" not in desk.state["banner"]


def test_a_run_is_stopped_without_saving_after_a_question(begin, long_project):
    desk = begin(long_project, "slow")
    start(desk)
    wait_for_steps(desk)
    for answer in ("Escape", "discard"):
        desk.click("discard")
        desk.wait_question("answer discard")
        assert desk.state["is_running"]
        if answer == "Escape":
            desk.key(answer)
            desk.wait_end_of_question("answer discard")
    desk.click("answer discard")
    desk.wait_state(status="stopped", is_running=False)
    assert "without saving\n“Resume” continues from the beginning." in desk.state["banner"]
    assert not list((Path(desk.state["folder"]) / "output").iterdir())


def test_a_second_stop_offers_to_end_the_process(begin, long_project):
    desk = begin(long_project, "hang")
    start(desk)
    desk.wait(lambda: desk.state["step"] >= 1, "a step")
    desk.key("shift+F5")
    desk.wait(lambda: desk.widget("stop")["text"] == "Stopping…", "the stop")
    assert "·  Stopping  ·  step" in desk.state["run_line"]
    desk.key("shift+F5")
    desk.wait_question("answer end")
    desk.key("Return")  # the first answer is to wait
    desk.wait_end_of_question("answer end")
    assert desk.state["is_running"]
    desk.click("stop")
    desk.click("answer end")
    desk.wait_state(status="died", is_running=False)
