import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

from onetrainer.errors import UserError
from onetrainer.files.locks import try_lock, unlock
from onetrainer.presets.presets import resolve
from onetrainer.queue.queue import Entry, Queue, QueueState, other_owners
from onetrainer.queue.serve import Server, is_served, serving
from onetrainer.queue.sweep import swept
from onetrainer.queue.times import seconds_to_end
from onetrainer.run import client
from onetrainer.run.client import environment
from onetrainer.run.device_owner import Owner, owning
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Progress, Started, Stopped
from onetrainer.run.run_folder import create_run
from tests.each import each


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
    """Its last ending is that of an earlier turn."""
    events = EventWriter(runs[0].events)
    events.write(Stopped(4, "pause"))
    events.close()

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
    Server(queue, print).poll()
    assert [entry.folder.name for entry in queue.read().waiting] == [run.name for run in runs]
    with queue.changing() as change:
        change.state = later
    events = EventWriter(runs[0].events)
    events.write(Stopped(8, "pause"))
    events.close()
    os.utime(runs[0].events, (1, 1))
    Server(queue, print).poll()
    assert queue.read().entries[0].turn == "over"


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


def test_sweeps_make_every_combination_with_names_of_their_own():
    document = {"output": {"name": "cat"}}
    made = swept(document, ["training.seed=1,2", "optimizer.lr=1e-4,3e-4"])
    configs = [resolve(one, source="a test") for one in made]
    assert [(one.training.seed, one.optimizer.lr) for one in configs] == [
        (1, 1e-4), (1, 3e-4), (2, 1e-4), (2, 3e-4),
    ]  # fmt: skip
    assert [one.output.name for one in configs][:2] == ["cat-seed-1-lr-1e-4", "cat-seed-1-lr-3e-4"]
    assert swept(document, []) == [document]
    listed = swept(document, ['data.captions.trigger=["a, b", "c/d"]'])
    assert [one["output"]["name"] for one in listed] == ["cat-trigger-a-b", "cat-trigger-c-d"]


@each("text", ["training.seed", "training.seed=", "a=[1,", "training.seed=" + "1," * 201])
def test_a_sweep_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="--sweep"):
        swept({}, [text])


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
            assert other_owners(queue.read()) == [other]
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
