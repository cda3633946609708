"""The window as a person uses it around a run: real clicks and keys, a fake worker."""

import json
import os
import signal
import time
from pathlib import Path

from onetrainer.run.event_log import EventReader
from onetrainer.run.events import Sample, Started

SAMPLE_BUDGET = 20
"""Turns of the window's heartbeat, of which an idle machine makes as many in a second."""
KILL_AFTER = 1.0


def start(desk):
    desk.click("start")
    desk.wait_state(page="run", is_running=True)


def worker_of(desk):
    events = EventReader(Path(desk.state["folder"]) / "events.jsonl").read().events
    return next(event.pid for event in events if isinstance(event, Started))


def sample_steps(desk):
    events = EventReader(Path(desk.state["folder"]) / "events.jsonl").read().events
    return [event.step for event in events if isinstance(event, Sample)]


def test_a_run_is_started_followed_and_its_samples_looked_through(open_desk, project):
    desk = open_desk(project)
    start(desk)
    desk.wait_state(status="finished", step=60)
    assert "Training finished" in desk.state["banner"]
    assert "paper.safetensors" in desk.state["banner"]
    assert desk.state["validation"] == ""  # which this run does not do
    assert not desk.widget("validation details")["shown"]
    desk.page("samples")
    assert desk.state["sample_place"] == [0, 60]
    desk.click("timeline")
    desk.key("Home")
    assert desk.state["sample_place"] == [0, 0]
    desk.key("Right", "Right", "Down")
    assert desk.state["sample_place"] == [1, 20]
    place = desk.widget("timeline")
    desk.click_at(place["x"] + place["width"] - 17, place["y"] + 15)
    assert desk.state["sample_place"] == [1, 60]
    desk.wait_state(sample_shown=60)
    desk.hold("space")
    desk.wait_state(sample_shown=0)
    desk.release("space")
    desk.wait_state(sample_shown=60)


def test_a_run_is_stopped_and_taken_up_again(open_desk, long_project):
    desk = open_desk(long_project, mode="slow")
    start(desk)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    assert not desk.widget("start")["enabled"]
    assert "is running" in desk.widget("start")["reason"]
    desk.click("stop")
    desk.wait_state(status="stopped", is_running=False)
    stopped_at = desk.state["step"]
    assert f"step {stopped_at}" in desk.state["banner"]
    desk.click("resume")
    desk.wait_state(is_running=True)
    desk.wait(lambda: desk.state["step"] > stopped_at, "further steps")
    assert desk.state["status"] == "running"
    assert desk.state["points"] == desk.state["step"]


def test_start_beside_a_paused_run_asks_which_of_the_two_is_meant(open_desk, long_project):
    desk = open_desk(long_project, mode="slow")
    start(desk)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    folder = desk.state["folder"]
    desk.click("pause")
    desk.wait_state(status="paused", is_running=False)
    desk.click("start")
    desk.click("answer resume")
    desk.wait_state(is_running=True, status="running")
    assert desk.state["folder"] == folder
    desk.click("pause")
    desk.wait_state(status="paused", is_running=False)
    desk.click("start")
    desk.click("answer new")
    desk.wait(lambda: desk.state["folder"] != folder, "a new run")
    desk.wait_state(is_running=True)


def test_an_earlier_run_is_listed_and_its_settings_are_saved_under_another_name(open_desk, project):
    desk = open_desk(project)
    start(desk)
    desk.wait_state(status="finished")
    desk.page("runs")
    desk.wait(lambda: len(desk.state["runs"]) == 1, "the run in the table")
    place = desk.widget("runs table")
    desk.click_at(place["x"] + 80, place["y"] + 45)
    desk.wait(lambda: desk.widget("show run")["enabled"], "the run is chosen")
    desk.click("show run")
    desk.wait_state(page="run", status="finished")
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


def test_a_sample_is_drawn_when_asked_for(open_desk, long_project):
    config = json.loads(long_project.read_text())
    config["sampling"] |= {"every": 0, "at_start": False}
    long_project.write_text(json.dumps(config))
    desk = open_desk(long_project, mode="slow")
    start(desk)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    assert desk.state["samples"] == 0
    desk.click("sample now")
    desk.wait(lambda: desk.state["samples"] == 3, "three samples")


def test_a_worker_that_crashes_is_told_of_and_the_window_lives(open_desk, project):
    desk = open_desk(project, mode="segv")
    start(desk)
    desk.wait_state(status="died")
    banner = desk.state["banner"]
    assert "crashed (SIGSEGV) in a library or a driver" in banner
    assert "about to touch a null pointer" in banner
    assert desk.widget("start")["enabled"]
    desk.page("training")


def test_a_run_that_fails_says_what_was_expected_and_what_to_do(open_desk, project):
    desk = open_desk(project, mode="oom")
    start(desk)
    desk.wait_state(status="failed")
    banner = desk.state["banner"]
    assert "ran out of memory" in banner
    assert "Turn on gradient checkpointing" in banner
    assert desk.widget("open log")["shown"]


def test_closing_during_a_run_asks_and_a_run_left_alone_is_attached_to_again(
    open_desk, long_project
):
    desk = open_desk(long_project, mode="slow")
    start(desk)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    desk.ask_to_close()
    desk.wait_question("answer keep")
    desk.key("Escape")
    desk.wait(lambda: not desk.widget("answer keep")["exists"], "the question is gone")
    assert desk.state["is_running"]
    seen = desk.state["step"]
    desk.ask_to_close()
    desk.click("answer keep")
    assert desk.wait_end() == 0
    again = open_desk(mode="slow")
    again.wait_state(page="run", is_running=True, status="running")
    again.wait(lambda: again.state["step"] > seen, "the run going on")
    again.click("pause")
    again.wait_state(status="paused")


def test_closing_can_stop_the_run_and_save(open_desk, long_project):
    desk = open_desk(long_project, mode="slow")
    start(desk)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    folder = desk.state["folder"]
    desk.ask_to_close()
    desk.click("answer stop")
    assert desk.wait_end() == 0
    events = (Path(folder) / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["type"] == "Stopped"


def test_settings_can_be_edited_during_a_run_and_a_killed_worker_is_told_of(
    open_desk, long_project
):
    desk = open_desk(long_project, mode="slow")
    start(desk)
    desk.page("training")
    desk.replace("training.steps", "5")
    desk.wait(lambda: desk.value("training.steps") == 5, "the value")
    config = json.loads((Path(desk.state["folder"]) / "config.json").read_text())
    assert config["training"]["steps"] == 20_000
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    os.kill(worker_of(desk), signal.SIGSEGV)
    desk.wait_state(status="died")


def test_a_new_sample_is_on_the_screen_soon_after_its_event(open_desk, long_project):
    desk = open_desk(long_project, mode="slow", constants={"ui.background.pump.TICK_MS": 50})
    start(desk)
    desk.page("samples")
    desk.wait(lambda: desk.state["sample_shown"] >= 10, "the first sample while training")
    before = desk.state["sample_shown"]
    desk.wait(lambda: before < max(sample_steps(desk)), "the event of the next sample")
    told = desk.state["turns"]
    desk.wait(lambda: desk.state["sample_shown"] > before, "the next sample")
    assert desk.state["turns"] - told < SAMPLE_BUDGET


def test_a_run_that_hangs_can_be_killed(open_desk, long_project):
    constants = {"ui.background.session.KILL_AFTER": KILL_AFTER}
    desk = open_desk(long_project, mode="hang", constants=constants)
    start(desk)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    begin = time.monotonic()
    desk.click("stop")
    is_offered = desk.widget("kill")["shown"]
    assert not is_offered or time.monotonic() - begin > KILL_AFTER
    desk.wait(lambda: desk.widget("kill")["shown"], "the offer to kill")
    desk.click("kill")
    desk.wait_state(status="died")
    assert "SIGKILL" in desk.state["banner"]
