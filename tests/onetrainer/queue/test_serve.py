import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from onetrainer.errors import UserError
from onetrainer.files.locks import try_lock, unlock
from onetrainer.queue import serve
from onetrainer.queue.listing import Listing
from onetrainer.queue.serve import Server, is_served, serving
from onetrainer.queue.times import seconds_to_end
from onetrainer.run import client
from onetrainer.run.client import environment
from onetrainer.run.device_owner import Owner, owning
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Stopped
from onetrainer.run.run_folder import create_run
from tests.runs import DEADLINE


def test_one_process_serves_a_queue(queue):
    assert not is_served(queue)
    # Another process, which says when it serves, and does so until its input ends.
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
    assert "this folder does not exist" in first.error


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


def test_who_asks_whether_a_queue_is_served_keeps_no_server_from_it(queue, monkeypatch):
    monkeypatch.setattr(serve, "_LOCK_WAIT", DEADLINE)  # the timer may be late
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
