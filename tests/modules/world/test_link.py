"""Where one of a run's processes ends, so do the others, and the cause is told."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from modules.world import link
from modules.world.link import Hub, Line
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED
from onetrainer.run.events import Failed
from tests.forked import Forked
from tests.runs import DEADLINE, wait_until

FAILED = Failed("user", "x.png: gone", "Expected an image", "Restore it.", "image")


@pytest.fixture
def lost():
    return []


@pytest.fixture
def hub(lost):
    made = Hub(3, host="127.0.0.1", log_of=lambda rank: f"worker-{rank}.log", on_lost=lost.append)
    yield made
    made.close(is_done=False)


@pytest.fixture
def other(hub, tmp_path):
    """Starts process 1 in a fork, which connects and does something; watched from then on."""
    processes = []

    def start(then):
        def main(_arguments):
            then(Line(hub.address, 1))
            signal.pause()
            return 0

        with (tmp_path / "output").open("wb") as output:
            processes.append(Forked(main, [], output))
        hub.start({1: processes[-1]})
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_a_killed_process_is_named_with_its_signal_and_log(hub, other):
    other(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    cause = hub.cause()
    assert "process 1 of 3" in cause.what
    assert "SIGKILL" in cause.what
    assert "worker-1.log" in cause.remedy


def test_a_process_that_ends_before_it_connects_is_noticed(hub, tmp_path):
    with (tmp_path / "output").open("wb") as output:
        hub.start({2: Forked(lambda _: 1, [], output)})
    assert "process 2 of 3" in hub.cause().what


def test_a_failure_that_a_process_reports_is_the_cause(hub, other):
    def fail(line):
        line.report(FAILED)
        os._exit(1)

    other(fail)
    cause = hub.cause()
    assert cause.what == "process 1 of 3: x.png: gone"
    assert (cause.expected, cause.failure) == ("Expected an image", "image")


def test_the_run_is_ended_if_the_main_thread_does_not_do_so(hub, other, lost, monkeypatch):
    monkeypatch.setattr(link, "GRACE_SECONDS", 0.0)
    process = other(lambda _: None)
    process.kill()
    wait_until(lambda: bool(lost))
    assert "process 1 of 3" in lost[0].what


def test_a_run_that_is_about_to_end_needs_no_other_process(hub, other, lost, monkeypatch):
    monkeypatch.setattr(link, "GRACE_SECONDS", 0.0)
    process = other(lambda _: None)
    hub.leave()
    process.kill()
    assert hub.cause() is not None
    assert not lost


@pytest.mark.parametrize(("is_done", "code"), [(True, EXIT_DONE), (False, EXIT_STOPPED)])
def test_the_end_of_the_first_process_is_that_of_the_others(hub, other, is_done, code):
    ready, tell = os.pipe()
    process = other(lambda _: os.write(tell, b"."))
    os.read(ready, 1)
    # Only once the connection is accepted is there one to close.
    wait_until(lambda: hub.connected == 1)
    hub.close(is_done=is_done)
    assert process.wait(DEADLINE) == code


def test_what_does_not_know_the_token_counts_for_nothing(hub, monkeypatch):
    monkeypatch.setattr(link, "CAUSE_SECONDS", 0.0)
    hub.start({})
    host, port, _ = hub.address.rsplit(":", 2)
    for sent in (b'{"token": "x", "rank": 1}\n', b"GET /\n", b"[]\n"):
        with closing(socket.create_connection((host, int(port)))) as stranger:
            stranger.sendall(sent)
            assert stranger.recv(1) == b""  # closed
    assert hub.cause() is None


def test_many_threads_may_ask_for_the_end_of_a_process(tmp_path):
    """As a hub's thread does beside a test."""
    with (tmp_path / "output").open("wb") as output, ThreadPoolExecutor(8) as threads:
        for code in range(20):
            process = Forked(lambda _, code=code: code, [], output)
            asked = [threads.submit(process.wait, 10) for _ in range(8)]
            assert [each.result() for each in asked] == [code] * 8
