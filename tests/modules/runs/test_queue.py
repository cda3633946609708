"""Runs of a queue, with real workers, in turns and passing each other; its kills: tests/faults."""

import os
import signal

import pytest

from onetrainer.errors import EXIT_STOPPED
from onetrainer.gpu_driver import present
from onetrainer.queue.queue import Queue
from onetrainer.queue.serve import Server
from onetrainer.run import client
from onetrainer.run.device_owner import Owner, owner_of, owning, places_of
from onetrainer.run.events import Phase, Stopped
from onetrainer.run.history import summary
from tests import runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path / "queue")


def lora(folder):
    return (folder.output / "my-lora.safetensors").read_bytes()


def finish(server):
    runs.wait_until(lambda: not server.poll())


def standings(queue):
    return [summary(entry.folder).standing for entry in queue.read().entries]


def test_runs_follow_each_other_and_a_failure_ends_none_but_its_own(config, queue, straight):
    folders = [
        runs.new_run(config),
        runs.new_run(config, model={"path": "nowhere"}),
        runs.new_run(config),
    ]
    queue.add(folders)
    said = []
    finish(Server(queue, said.append))
    assert standings(queue) == ["finished", "failed", "finished"]
    assert {entry.turn for entry in queue.read().entries} == {"over"}
    assert [lora(folder) for folder in (folders[0], folders[2])] == [lora(straight)] * 2
    assert said[:3] == [
        f"{folders[0].name} starts.",
        f"{folders[0].name}: finished.",
        f"{folders[1].name} starts.",
    ]


def test_a_run_lets_another_one_pass_and_ends_with_the_same_bytes(
    config, queue, straight, starting
):
    long, urgent = runs.new_run(config), runs.new_run(config)
    queue.add([long, urgent])
    server = Server(queue, lambda _: None)
    with starting("asked 1"):
        assert server.poll()
    runs.wait_until(lambda: summary(long).step == 1)
    queue.run_now(urgent.path)
    finish(server)
    assert summary(urgent).ended < summary(long).ended
    assert standings(queue) == ["finished", "finished"]
    assert lora(long) == lora(urgent) == lora(straight)
    assert {entry.folder.name: entry.starts for entry in queue.read().entries} == {
        long.name: 2,
        urgent.name: 1,
    }


def test_a_run_that_crashes_while_it_is_watched_is_not_tried_again(config, queue):
    folder = runs.new_run(config)
    queue.add([folder])
    server = Server(queue, lambda _: None)
    runs.wait_until(lambda: server.poll() and folder.worker_pid() is not None)
    os.kill(folder.worker_pid(), signal.SIGKILL)
    finish(server)
    assert [entry.turn for entry in queue.read().entries] == ["over"]
    assert not (folder.output / "my-lora.safetensors").exists()


def test_a_run_waits_for_a_gpu_unless_it_shares_it_and_its_wait_can_be_ended(
    config, straight, monkeypatch
):
    monkeypatch.setattr(present, "GPU_DEVICES", (str(config),))  # without one torch takes the CPU
    first = client.start(runs.new_run(config, training={"steps": 100_000}))
    name = first.folder.name
    runs.wait_until(lambda: owner_of(places_of("auto")) == Owner(name, str(first.folder.path)))
    patient, leaving = (client.start(runs.new_run(config)) for _ in range(2))
    for run in (patient, leaving):
        waits = Phase("waiting", detail=f"{name} uses the device")
        runs.wait_until(lambda run=run, waits=waits: waits in runs.events_of(run.folder))
    leaving.send("stop")
    assert leaving.wait(runs.DEADLINE) == EXIT_STOPPED
    assert runs.events_of(leaving.folder)[-1] == Stopped(0, "stop")
    assert runs.finish(runs.new_run(config, hardware={"share_device": True})) == 0
    first.kill()
    assert patient.wait(runs.DEADLINE) == 0
    assert lora(patient.folder) == lora(straight)


def test_a_run_on_the_processor_waits_for_no_other_run(config, straight):
    with owning(["cpu"], Owner("another-001")):
        folder = runs.new_run(config)
        assert runs.finish(folder) == 0
    assert lora(folder) == lora(straight)
    assert not [e for e in runs.events_of(folder) if getattr(e, "name", "") == "waiting"]
