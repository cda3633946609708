import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from onetrainer.captioning.results import jobs_folder
from onetrainer.errors import UserError
from onetrainer.files.locks import try_lock, unlock
from onetrainer.gpu_driver import present
from onetrainer.messages.queue_rows import queue_rows
from onetrainer.presets.presets import resolve
from onetrainer.queue import serve
from onetrainer.queue.freeze import change_device, clone
from onetrainer.queue.listing import Listing
from onetrainer.queue.queue import Entry, Queue, QueueState
from onetrainer.queue.serve import Server, is_served, serving
from onetrainer.queue.times import seconds_to_end
from onetrainer.run import client
from onetrainer.run.client import environment
from onetrainer.run.device_owner import Owner, holders, owning
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Progress, Started, Stopped
from onetrainer.run.run_folder import create_run
from tests.runs import wait_until


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path / "queue")


@pytest.fixture
def runs(tmp_path, queue):
    """Three runs in the queue."""
    folders = [create_run(tmp_path / "runs", name=name, config={}) for name in "abc"]
    queue.add(folders, seconds=100.0)
    return folders


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


def test_a_run_is_cloned_behind_itself_with_its_settings_and_forecast(queue, tmp_path):
    config = resolve({"training": {"seed": 7}}, source="a test").model_dump(mode="json")
    config["output"]["folder"] = "elsewhere"  # the folder of runs has moved since
    folders = [create_run(tmp_path / "runs", name=name, config=config) for name in "ab"]
    queue.add(folders, seconds=9.0)
    made = clone(queue, folders[0].path)
    assert [entry.folder.name for entry in queue.read().waiting] == ["a-001", made.name, "b-001"]
    assert {entry.seconds for entry in queue.read().waiting} == {9.0}
    copy = json.loads(made.config.read_text())
    assert made.path.parent == folders[0].path.parent
    assert copy == config | {"output": config["output"] | {"folder": str(made.path.parent)}}
    with queue.changing() as change:
        change.state = change.state.with_entry(str(folders[0].path), turn="over")
    last = clone(queue, folders[0].path)
    assert queue.read().waiting[-1].folder.name == last.name


def test_a_clone_of_a_run_that_begins_meanwhile_waits_behind_all_others(queue, tmp_path):
    config = resolve({}, source="a test").model_dump(mode="json")
    folders = [create_run(tmp_path / "runs", name=name, config=config) for name in "ab"]
    queue.add(folders)
    with ThreadPoolExecutor() as threads:
        with queue.changing() as change:  # which the clone waits for
            made = threads.submit(clone, queue, folders[0].path)
            wait_until(lambda: len([*folders[0].path.parent.iterdir()]) == 3)
            change.state = change.state.with_entry(str(folders[0].path), turn="running")
        names = [folders[1].name, made.result().name]
    assert [entry.folder.name for entry in queue.read().waiting] == names


def test_a_waiting_run_or_job_is_moved_to_another_device_and_forecast_anew(queue, tmp_path):
    config = resolve({}, source="a test").model_dump(mode="json")
    run = create_run(tmp_path / "runs", name="a", config=config)
    request = {"images": "pictures", "model": "tagger"}
    job = create_run(tmp_path / "runs", name="b", config={"job": "caption", "request": request})
    queue.add([run, job], seconds=9.0)
    for folder, device in ((run, "cuda:1,cuda:2"), (job, "cuda:1")):
        change_device(queue, folder.path, device)
    entries = queue.read().waiting
    assert [(entry.device, entry.seconds, entry.job) for entry in entries] == [
        ("cuda:1,cuda:2", 0.0, ""), ("cuda:1", 9.0, "caption"),
    ]  # fmt: skip
    assert (
        resolve(json.loads(run.config.read_text()), source="").hardware.device == entries[0].device
    )
    assert json.loads(job.config.read_text())["request"] == request | {"device": "cuda:1"}
    for folder in (run, job):
        with pytest.raises(UserError, match="device"):
            change_device(queue, folder.path, "toaster")
    assert queue.read().waiting == entries
    with pytest.raises(UserError, match="describes each image once"):
        clone(queue, job.path)
    with queue.changing() as change:
        change.state = change.state.with_entry(str(run.path), turn="running")
    with pytest.raises(UserError, match="does not wait"):
        change_device(queue, run.path, "cpu")


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


def test_the_first_device_is_called_cpu_where_there_is_no_gpu(queue, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    for gpus, first in (((), "CPU"), ((str(tmp_path),), "GPU 0")):
        monkeypatch.setattr(present, "GPU_DEVICES", gpus)
        with owning(["gpu-0"], Owner("x-001")), owning(["gpu-1"], Owner("y-001")):
            rows = queue_rows(Listing(queue))
        assert [row.device for row in rows] == [first, "GPU 1"]


def own_for_a_moment(owner):
    with owning(["gpu-0"], owner):
        pass


def test_a_file_that_is_no_queue_is_named_and_kept(queue):
    queue.folder.mkdir()
    queue.file.write_text('{"entries": [{"what": 1}]}')
    with pytest.raises(UserError, match="this is no queue"):
        queue.read()
    assert queue.file.read_text().startswith('{"entries"')


def test_one_process_serves_a_queue(queue):
    assert not is_served(queue)
    code = (
        "import sys; from pathlib import Path; from onetrainer.queue.queue import Queue;"
        "from onetrainer.queue.serve import serving\n"
        "with serving(Queue(Path(sys.argv[1])), print): print('here', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(queue.folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as other:
        assert other.stdout.readline().strip() == b"here"
        assert is_served(queue)
        with pytest.raises(UserError, match="served already"), serving(queue, print):
            pass
        other.stdin.close()
    assert not is_served(queue)


def test_a_held_queue_starts_nothing_and_an_empty_one_is_done(queue, runs):
    queue.hold(True)
    server = Server(queue, print)
    assert server.poll()
    assert queue.read().running == []
    for run in runs:
        queue.remove(run.path)
    assert not server.poll()


def test_a_run_that_cannot_be_started_is_over_with_its_reason(queue, runs):
    shutil.rmtree(runs[0].path)
    Server(queue, print).poll()
    first = queue.read().entries[0]
    assert (first.turn, first.starts) == ("over", 1)
    assert "cannot write here" in first.error


def test_a_run_that_is_running_already_is_followed(queue, runs):
    said: list[str] = []
    server = Server(queue, said.append)
    with runs[0].locked():
        server.poll()
        server.poll()
        assert [entry.run for entry in queue.read().running] == [str(runs[0].path)]
    assert said == [f"{runs[0].name} is running already."]


def test_a_run_that_was_taken_out_or_held_since_the_queue_was_read_is_not_started(queue, runs):
    said: list[str] = []
    with runs[0].locked():
        for change in (lambda: queue.hold(True), lambda: queue.remove(runs[0].path)):
            state = queue.read()
            change()
            Server(queue, said.append)._start_free(state)
            assert {entry.turn for entry in queue.read().entries} == {"waiting"}
            queue.hold(False)
    assert said == []


def test_a_run_has_its_turn_before_it_starts_and_goes_on_if_the_server_ended_then(
    queue, runs, monkeypatch
):
    """Its last ending is that of an earlier turn, which also holds after the file was rewound."""
    monkeypatch.setattr(serve, "BEGIN_SECONDS", 0.0)
    events = EventWriter(runs[0].events)
    events.write(Stopped(4, "pause"))
    events.close()
    now = round(time.time(), 3)
    while round(time.time(), 3) == now:
        pass  # an end in the millisecond in which the turn begins would be its own

    class Killed(BaseException):
        pass

    def start(folder):
        raise Killed

    monkeypatch.setattr(client, "start", start)
    with pytest.raises(Killed):
        Server(queue, print).poll()
    assert [entry.run for entry in queue.read().running] == [str(runs[0].path)]
    queue.hold(True)
    later = queue.read()
    os.utime(runs[0].events)  # as if a worker had rewound it before it was killed
    Server(queue, print).poll()
    assert [entry.folder.name for entry in queue.read().waiting] == [run.name for run in runs]
    with queue.changing() as change:
        change.state = later
    events = EventWriter(runs[0].events)
    events.write(Stopped(8, "pause"))
    events.close()
    Server(queue, print).poll()
    assert queue.read().entries[0].turn == "over"


def test_a_run_whose_worker_is_on_its_way_when_the_server_is_killed_is_not_started_again(
    queue, runs, monkeypatch
):
    """The next server comes before the worker has locked its folder."""
    started: list[str] = []

    def start(folder):
        started.append(folder.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "start", start)
    with pytest.raises(KeyboardInterrupt):
        Server(queue, print).poll()
    server = Server(queue, print)
    assert server.poll()
    assert [entry.folder.name for entry in queue.read().running] == started == [runs[0].name]
    with runs[0].locked():
        assert server.poll()
    monkeypatch.setattr(serve, "BEGIN_SECONDS", 0.0)
    with runs[0].locked():
        assert Server(queue, print).poll()
    assert started == [runs[0].name]


def test_a_run_that_cannot_be_asked_to_pause_trains_on(queue, runs):
    with queue.changing() as change:
        state = change.state.with_entry(str(runs[0].path), turn="running", passes=True)
        change.state = state
    runs[0].commands.mkdir()
    said: list[str] = []
    server = Server(queue, said.append)
    with runs[0].locked():
        assert server.poll()
        assert server.poll()
    assert [text.partition(":")[0] for text in said] == ["a-001 cannot be asked to pause"]


def test_who_asks_whether_a_queue_is_served_keeps_no_server_from_it(queue):
    queue.folder.mkdir()
    queue.serving.touch()
    with queue.serving.open("rb") as handle:
        assert try_lock(handle, shared=True)
        letting_go = threading.Timer(0.1, unlock, [handle])
        letting_go.start()
        with serving(queue, print):
            assert is_served(queue)
        letting_go.join()


def test_a_run_whose_folder_is_gone_is_over_and_the_others_have_their_turn(queue, runs):
    with queue.changing() as change:
        change.state = change.state.with_entry(str(runs[0].path), turn="running", starts=1)
    shutil.rmtree(runs[0].path)
    assert [*seconds_to_end(queue.read()).values()] == [100.0, 200.0]
    queue.hold(True)
    Server(queue, print).poll()
    first = queue.read().entries[0]
    assert (first.turn, first.error) == ("over", "its folder is gone")


def test_the_file_is_json_that_later_versions_may_extend(queue, runs):
    document = json.loads(queue.file.read_text())
    document["entries"][0]["color"] = "red"
    queue.file.write_text(json.dumps(document))
    assert queue.read() == QueueState(
        tuple(Entry(str(run.path), seconds=100.0) for run in runs), is_held=False
    )


def test_each_device_has_its_own_turn_and_waits_for_what_the_queue_did_not_start(queue, tmp_path):
    """Runs whose turn it is are followed here, because they are running elsewhere."""
    folders = [
        create_run(tmp_path / "runs", name=name, config={"hardware": {"device": device}})
        for name, device in {"a": "cuda:0", "b": "auto", "c": "cuda:1"}.items()
    ]
    queue.add(folders)
    said: list[str] = []
    server = Server(queue, said.append)
    other, trial = Owner("x-001", "/runs/x-001"), Owner("Try model", yields=True)
    with folders[0].locked(), folders[1].locked(), folders[2].locked():
        with owning(["gpu-0"], other), owning(["gpu-1"], trial):
            assert Listing(queue).blocking == other.name
            assert server.poll()
        turns = {entry.folder.name: entry.turn for entry in queue.read().entries}
        assert turns == {"a-001": "waiting", "b-001": "waiting", "c-001": "running"}
        assert said[1:] == ["x-001 uses the device; the queue waits for it."]
        assert server.poll()
        assert [entry.folder.name for entry in queue.read().waiting] == ["b-001"]


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
