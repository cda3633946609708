"""The page of the queue as a person uses it; nothing serves the queue here."""

import json
from pathlib import Path

from onetrainer.queue.queue import Queue
from onetrainer.run.device_owner import Owner, owners_folder, owning, places_of
from onetrainer.run.run_folder import RunFolder
from tests.ui.desk import Desk


def rows(desk: Desk) -> list[list[str]]:
    return desk.state["queue"]


def wait_rows(desk: Desk, *wanted: str) -> None:
    desk.wait(lambda: [name for name, _ in rows(desk)] == [*wanted], f"the rows {wanted}")


def choose(desk: Desk, number: int) -> None:
    place = desk.place("queue table")
    desk.click_at(place["x"] + 80, place["y"] + 15 + 30 * number)


def test_runs_are_frozen_swept_ordered_and_removed_and_others_are_listed(desk, tmp_path):
    desk.key("F7")
    desk.wait_state(page="queue")
    desk.click("enqueue")
    wait_rows(desk, "paper-001")
    desk.click("enqueue sweep")
    desk.wait_question("answer values")
    desk.type("1e-4, 2e-4")
    desk.key("Return")
    wait_rows(desk, "paper-001", "paper-lr-1e-4-001", "paper-lr-2e-4-001")
    frozen = Path(desk.state["queue_folders"][2]) / "config.json"
    assert json.loads(frozen.read_text())["optimizer"]["lr"] == 2e-4
    assert {state for _, state in rows(desk)} == {"Waits"}

    choose(desk, 3)
    desk.wait(lambda: desk.widget("up queued")["enabled"], "the third run is chosen")
    desk.click("up queued")
    wait_rows(desk, "paper-001", "paper-lr-2e-4-001", "paper-lr-1e-4-001")
    choose(desk, 3)
    desk.click("clone queued")
    wait_rows(desk, "paper-001", "paper-lr-2e-4-001", "paper-lr-1e-4-001", "paper-lr-1e-4-002")
    choose(desk, 4)
    desk.click("device queued")
    desk.wait_question("answer device")
    desk.click("answer device")
    desk.wait(lambda: desk.state["focus"] == "None", "the keyboard in the list")
    desk.key("Down", "Return")
    desk.wait(lambda: desk.state["focus"] == "answer device", "the end of the list")
    desk.key("Return")
    devices = ["automatic", "automatic", "automatic", "GPU"]
    desk.wait(lambda: desk.state["queue_devices"] == devices, "the other device")
    desk.click("remove queued")
    desk.wait(lambda: len(rows(desk)) == 3, "the clone is removed")
    desk.click("queue table")
    desk.key("Home", "alt+Down")
    desk.key("Delete")
    desk.wait(lambda: len(rows(desk)) == 2, "one run is removed")
    assert frozen.is_file()

    elsewhere = Owner("other-007", str(tmp_path / "other-007"))
    devices = desk.home / "config" / "onetrainer" / "devices" / owners_folder().name
    with owning(places_of("auto"), elsewhere, folder=devices):
        desk.wait(lambda: rows(desk)[0] == ["other-007", "Training, not of the queue"], "its row")
    desk.wait(lambda: len(rows(desk)) == 2, "it is gone")

    desk.page("training")
    desk.rest()  # nothing is read of the queue meanwhile
    Queue(desk.home / "config" / "onetrainer" / "queue").remove(frozen.parent)
    desk.key("F7")
    desk.wait(lambda: len(rows(desk)) == 1, "what another program did is seen at the next visit")


def test_a_run_with_a_wrong_value_is_not_added(desk):
    desk.page("training")
    desk.replace("training.batch_size", "none")
    desk.key("F7")
    desk.wait_state(page="queue")
    before = rows(desk)
    desk.click("enqueue")
    desk.wait_question("answer problem 0")
    desk.key("Escape")
    desk.wait_end_of_question("answer problem 0")
    assert rows(desk) == before


def test_a_window_offers_to_start_a_queue_that_waits_for_it(open_desk, tmp_path):
    run = tmp_path / "runs" / "paper-001"
    run.mkdir(parents=True)
    queue = Queue(tmp_path / "home" / "config" / "onetrainer" / "queue")
    queue.add([RunFolder(run)])
    desk = open_desk()
    desk.wait(lambda: "1 run waits" in desk.state["message"], "the offer")
    assert "Nothing begins until it is started" in desk.state["message"]
    assert desk.widget("start queue")["shown"]
    desk.ask_to_close()
    assert desk.wait_end() == 0
    queue.hold(True)
    desk = open_desk()
    desk.wait_state(page="welcome")
    desk.rest()
    assert desk.state["message"] == ""
