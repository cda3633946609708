import json
import threading
import time

import pytest

from onetrainer.errors import UserError
from onetrainer.messages.queue_rows import queue_rows
from onetrainer.queue.listing import Listing
from onetrainer.queue.queue import Entry, QueueState
from onetrainer.queue.times import seconds_to_end
from onetrainer.run.device_owner import Owner, holders, owning
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Progress, Started
from onetrainer.run.job_folders import jobs_folder
from onetrainer.run.run_folder import create_run
from tests.runs import wait_until


def names(queue):
    return [entry.folder.name[0] for entry in queue.read().entries]


def test_order_changes_and_what_runs_or_is_over_stays_first(queue, runs):
    queue.move(runs[2].path, 0)
    assert names(queue) == ["c", "a", "b"]
    with queue.changing() as change:
        change.state = change.state.with_entry(str(runs[0].path), turn="running")
    queue.run_now(runs[1].path)
    assert names(queue) == ["a", "b", "c"]
    assert [entry.passes for entry in queue.read().running] == [True]
    with pytest.raises(UserError, match="is running"):
        queue.remove(runs[0].path)
    queue.remove(runs[1].path)
    assert names(queue) == ["a", "c"]
    assert runs[1].config.is_file()


def test_a_run_that_had_its_turn_may_be_added_again_and_one_that_waits_is_there_once(queue, runs):
    with queue.changing() as change:
        change.state = change.state.with_entry(str(runs[0].path), turn="over", starts=1)
    queue.add(runs[:2])
    assert names(queue) == ["b", "c", "a"]
    assert [entry.turn for entry in queue.read().entries] == ["waiting"] * 3


def test_a_run_is_named_by_its_folder_or_its_name(queue, runs):
    queue.move(queue.read().entries[1].folder.path, 0)
    queue.move(type(runs[0].path)(runs[2].name), 0)
    assert names(queue) == ["c", "b", "a"]
    with pytest.raises(UserError, match="not in the queue"):
        queue.move(type(runs[0].path)("z-001"), 0)


def test_times_add_up_from_what_is_left_of_the_running_run(queue, runs):
    state = queue.read().with_entry(str(runs[1].path), turn="running")
    with runs[1].locked():
        events = EventWriter(runs[1].events)
        events.write(Started(1, 0, 10))
        events.write(Progress(4, 10, 0, 0.1, 0.1, eta_seconds=30.0))
        events.close()
        ends = seconds_to_end(state)
    assert [ends[str(run.path)] for run in runs] == [130.0, 30.0, 230.0]
    unknown = state.with_entry(str(runs[0].path), seconds=0.0)
    assert seconds_to_end(unknown)[str(runs[2].path)] is None


def test_rows_say_where_each_is_when_it_is_done_and_who_else_computes(queue, runs):
    state, holder = queue.read(), str(runs[0].path)
    with queue.changing() as change:
        change.state = state.with_entry(holder, turn="running").with_entry(
            str(runs[2].path), device="cuda:1"
        )
    with (
        owning(["gpu-0"], Owner("Try model", yields=True)) as expect,
        owning(["gpu-1"], Owner("x-001", "/runs/x-001")),
        owning(["gpu-2"], Owner("captions-1", str(jobs_folder() / "captions-1"))),
    ):
        waiting = threading.Thread(target=lambda: own_for_a_moment(Owner("a-001", holder)))
        waiting.start()
        wait_until(lambda: any(each.waits for each in holders()))
        expect(3600)
        rows = {row.name: row for row in queue_rows(Listing(queue))}
    waiting.join()
    assert rows["Try model"].state == "Generating images"
    assert rows["x-001"].state == "Training, not of the queue"
    assert rows["captions-1"].state == "Describing images, not of the queue"
    assert rows["a-001"].state == "Waits for Try model"
    assert [rows[name].device for name in ("x-001", "b-001", "c-001")] == [
        "GPU 1", "automatic", "GPU 1",
    ]  # fmt: skip
    assert rows["Try model"].done and rows["b-001"].done
    assert rows["c-001"].done == ""  # it waits for one that does not know when it ends


def test_a_shared_processor_has_a_row_for_each_owner_and_the_last_one_to_end_counts(
    queue, tmp_path
):
    config = {"hardware": {"device": "cpu"}}
    waiting = create_run(tmp_path / "runs", name="d", config=config)
    queue.add([waiting], seconds=100.0)
    owners = (Owner("x-001", ends=time.time() + 7200), Owner("y-001", ends=time.time() + 3600))
    with owning(["cpu"], owners[0]), owning(["cpu"], owners[1]):
        listing = Listing(queue)
    assert [(row.name, row.device) for row in queue_rows(listing)[:2]] == [
        ("x-001", "CPU"), ("y-001", "CPU"),
    ]  # fmt: skip
    assert listing.ends[str(waiting.path)] == pytest.approx(7200 + 100, abs=60)


def own_for_a_moment(owner):
    with owning(["gpu-0"], owner):
        pass


def test_of_a_damaged_file_what_is_sound_stays_and_it_is_kept_when_it_is_replaced(queue, caplog):
    queue.folder.mkdir()
    damaged = '{"entries": [{"what": 1}, {"run": 3}, {"run": "/b", "device": 3}, {"run": "/c"}]}'
    queue.file.write_text(damaged)
    assert queue.read() == QueueState((Entry("/b"), Entry("/c")))
    assert str(queue.file) in caplog.text and "the rest is not in the queue" in caplog.text
    queue.hold(True)
    assert queue.file.with_name("queue.json.damaged").read_text() == damaged
    assert queue.read() == QueueState((Entry("/b"), Entry("/c")), is_held=True)


def test_the_file_is_json_that_later_versions_may_extend(queue, runs):
    document = json.loads(queue.file.read_text())
    document["entries"][0]["color"] = "red"
    queue.file.write_text(json.dumps(document))
    assert queue.read() == QueueState(
        tuple(Entry(str(run.path), seconds=100.0) for run in runs), is_held=False
    )


def test_only_a_run_on_the_same_device_lets_another_one_pass(queue, tmp_path):
    folders = [
        create_run(tmp_path / "runs", name="run", config={"hardware": {"device": device}})
        for device in ("cuda:0", "cuda:1", "cuda:1")
    ]
    queue.add(folders, seconds=100.0)
    with queue.changing() as change:
        for folder in folders[:2]:
            change.state = change.state.with_entry(str(folder.path), turn="running")
    queue.run_now(folders[2].path)
    assert [entry.passes for entry in queue.read().running] == [False, True]
    assert [*seconds_to_end(queue.read()).values()] == [100.0, 100.0, 200.0]
