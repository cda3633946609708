"""The page of runs as a person uses it: real clicks and keys over runs that have ended."""

import json
import shutil
from pathlib import Path

import pytest

from onetrainer.queue.queue import Queue
from onetrainer.run.own_notes import OwnNotes, read_notes
from onetrainer.run.run_folder import RunFolder

ROW = 46
LONG = "a trigger that is longer than the column of a run is wide, " * 5


def runs(desk):
    return desk.state["runs"]


def wait_names(desk, *names):
    desk.wait(lambda: runs(desk)["names"] == [*names], f"the runs {names}")


def choose(desk, *numbers):
    """Clicks on rows, from 1, with Control from the second on."""
    place = desk.place("runs table")
    for index, number in enumerate(numbers):
        if index:
            desk.hold("Control_L")
        desk.click_at(place["x"] + 120, place["y"] + 30 + ROW * number - ROW // 2)
    if numbers[1:]:
        desk.release("Control_L")
    desk.wait(lambda: len(runs(desk)["chosen"]) == len(numbers), "the selection")


def train(desk):
    desk.click("start")
    desk.wait_state(status="finished", is_running=False, step=60)


@pytest.fixture
def two_runs(desk):
    """The page of runs, with one and its like that began later, with three times the rate."""
    train(desk)
    first = Path(desk.state["folder"])
    second = Path(shutil.copytree(first, first.with_name("paper-002")))
    config = json.loads((first / "config.json").read_text())
    config["optimizer"]["lr"] *= 3
    config["data"]["trigger"] = LONG
    (second / "config.json").write_text(json.dumps(config))
    start, rest = (first / "events.jsonl").read_text().split("\n", 1)
    later = json.loads(start)
    later["time"] += 1
    (second / "events.jsonl").write_text(json.dumps(later) + f"\n{rest}")
    desk.page("runs")
    wait_names(desk, "paper-002", "paper-001")
    desk.wait(lambda: runs(desk)["images"] == 2, "their newest samples")
    return desk


def test_runs_are_named_noted_starred_found_and_compared(two_runs):
    desk = two_runs
    newest = Path(desk.state["folder"]).with_name("paper-002")
    choose(desk, 1)
    desk.click("run tags")
    desk.type("best, warm")
    desk.click("star run")
    desk.click("rename run")
    desk.wait_question("answer label")
    desk.type("Steep")
    desk.key("Return")
    wait_names(desk, "Steep", "paper-001")
    wanted = OwnNotes("Steep", tags=("best", "warm"), is_starred=True)
    desk.wait(lambda: read_notes(RunFolder(newest)) == wanted, "the notes in the run's folder")
    assert newest.name == "paper-002"  # whatever refers to the folder finds it
    desk.click("find runs")
    desk.type("3e-4 warm")
    wait_names(desk, "Steep")
    desk.key("Escape")
    wait_names(desk, "Steep", "paper-001")
    choose(desk, 1, 2)
    desk.click("compare runs")
    desk.wait(lambda: runs(desk)["tab"] == "settings", "the comparison")
    desk.wait(lambda: runs(desk)["settings"][1][2].endswith("…"), "what a column cuts")
    data, (_, _, cut), *rest = runs(desk)["settings"]
    assert data == ["Data"] and LONG.startswith(cut[:-1])
    assert rest == [["Training"], ["   Learning rate", "1e-4", "3e-4"]]
    desk.click("compare samples")
    assert runs(desk)["samples"] == [["paper-001", "paper-002"]] * 3
    desk.click("compare curves")
    desk.key("Escape")
    desk.wait(lambda: not runs(desk)["tab"], "the list")
    first = RunFolder(newest.with_name("paper-001"))
    first.notes.mkdir()  # where they cannot be written
    compare_with_a_run_elsewhere(desk, first.path)
    choose(desk, 2)
    desk.click("rename run")
    desk.wait_question("answer label")
    desk.type("Flat")
    desk.key("Return")
    desk.wait(lambda: desk.state["message"].startswith("Not saved"), "that it is not saved")
    wait_names(desk, "Steep", "paper-001", "paper-009")


def compare_with_a_run_elsewhere(desk, run):
    """One that the terminal has trained in a folder that no window has seen."""
    elsewhere = desk.home / "elsewhere"
    shutil.copytree(run, elsewhere / "paper-009")
    known = desk.home / "config" / "onetrainer" / "run-folders.json"
    known.write_text(json.dumps([str(elsewhere)]))
    desk.page("data")
    desk.page("runs")
    wait_names(desk, "Steep", "paper-001", "paper-009")
    choose(desk, 1, 3)
    desk.click("compare runs")
    desk.wait(lambda: runs(desk)["tab"] == "curves", "the comparison")
    desk.click("compare samples")
    assert runs(desk)["samples"][0] == ["paper-009", "paper-002"]
    desk.key("Escape")


def test_a_run_is_queued_again_deleted_and_brought_back(two_runs):
    desk = two_runs
    folder = Path(desk.state["folder"])
    choose(desk, 2)
    assert desk.widget("continue run")["reason"] == "This run has finished all its steps."
    desk.click("queue run")
    desk.wait(lambda: "paper-003" in desk.state["message"], "the new run")
    queue = Queue(desk.home / "config" / "onetrainer" / "queue")
    assert [entry.folder.name for entry in queue.read().waiting] == ["paper-003"]
    config = json.loads((folder.parent / "paper-003" / "config.json").read_text())
    assert config == json.loads((folder / "config.json").read_text())
    queue.remove(folder.parent / "paper-003")  # the window is also that of other tests
    desk.click("delete run")
    desk.wait_question("answer delete")
    desk.rest(2)  # the window goes on meanwhile
    desk.key("Return")
    desk.wait(lambda: not folder.exists(), "the run away")
    desk.wait_state(folder="")
    desk.wait(lambda: "paper-001" not in runs(desk)["names"], "the list without it")
    assert (folder.parent / "deleted runs" / folder.name / "config.json").exists()
    desk.click("undo delete run")
    desk.wait(lambda: "paper-001" in runs(desk)["names"], "the run back in the list")
    assert (folder / "config.json").exists()


def test_the_file_of_a_sample_s_step_is_written_or_the_kept_steps_are_said(desk):
    train(desk)
    desk.page("samples")
    desk.click("timeline")
    desk.key("Home")
    assert desk.widget("use step")["reason"] == "At step 0 nothing is trained yet."
    desk.key("Right")
    desk.click("use step")
    desk.wait_question("answer use")
    desk.key("Return")  # the nearest step that is kept, which is the last
    desk.wait(lambda: desk.state["message"].startswith("Written: "), "where the file is")
    written = Path(desk.state["message"].removeprefix("Written: "))
    assert written == Path(desk.state["folder"]) / "output" / "paper-000060.safetensors"
    desk.click("use step")
    desk.click("answer keep")
    desk.wait_state(page="output", focus="output.export_every")
