"""Jobs without a run folder: `onetrainer sample`, in processes of their own where these matter."""

import os
import signal
from shlex import split

import pytest

from modules import worker
from modules.jobs import sample as sampling
from onetrainer.__main__ import main
from onetrainer.errors import EXIT_STOPPED
from onetrainer.jobs import job
from onetrainer.jobs.job import Job
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.jobs.warm_worker import WarmWorker
from onetrainer.run.events import Failed, Finished, Phase, Stopped
from tests import tiny
from tests.forked import Forked, Forking
from tests.runs import DEADLINE, wait_until

SMALL = split("--prompt a --prompt b --width 64 --height 64 --steps 2 --precision fp32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("shell")
    tiny.write_folder(made / "base")
    return made


@pytest.fixture(autouse=True)
def own_logs(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def forked(monkeypatch):
    """Workers are forked from this process, and do what they are given."""
    started = []

    def fork(main):
        started.append(Forking(main))
        monkeypatch.setattr(job, "subprocess", started[-1])

    yield fork
    for each in started:
        each.end()


def logs(tmp_path):
    return [path.name for path in tmp_path.glob("onetrainer-*.log")]


def in_terminal(folder, *arguments):
    """`onetrainer ARGUMENTS…` in a folder, in a process of its own."""

    def run(words):
        os.chdir(folder)
        job.subprocess = Forking(worker.main)
        return main(words)

    with (folder / "errors.txt").open("wb") as errors:
        return Forked(run, [*arguments], errors, has_pipes=True)


def request(folder, **changes):
    values = {"base": str(folder / "base"), "prompts": ("a cat",), "width": 64, "height": 64,
              "steps": 2, "precision": "fp32", "out": str(folder / "out")}  # fmt: skip
    return SampleRequest(**values | changes)


@pytest.mark.usefixtures("in_this_process")
def test_images_are_listed(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    assert main(["sample", "base", *SMALL, "--grid", "--out", "pictures"]) == 0
    names = ["00001-42.png", "00002-42.png", "00003-grid.png"]
    # On a slow machine what it is doing is reported before.
    out = capfd.readouterr().out
    assert out.splitlines()[-3:] == [f"pictures/{name}" for name in names]
    assert sorted(path.name for path in (folder / "pictures").iterdir()) == names


def test_ctrl_c_ends_sampling_and_leaves_nothing_half_written(folder, tmp_path):
    done = in_terminal(folder, "sample", "base", *SMALL, "--seeds", "500", "--out", "ended")
    first = folder / "ended" / "00001-42.png"
    wait_until(lambda: first.exists() or done.poll() is not None)
    done.send_signal(signal.SIGINT)
    with done.stdin, done.stdout:
        out = done.stdout.read().decode()
    assert (done.wait(DEADLINE), (folder / "errors.txt").read_text()) == (EXIT_STOPPED, "")
    assert out.splitlines()[-1] == "Stopped."
    assert first.exists()
    assert {path.suffix for path in (folder / "ended").iterdir()} == {".png"}
    assert logs(tmp_path) == []


def test_a_warm_worker_answers_again_without_loading_and_another_follows_a_killed_one(
    folder, forked
):
    forked(worker.main)
    warm = WarmWorker()
    assert isinstance([*warm.events(request(folder))][-1], Finished)
    pid = warm.pid
    again = [*warm.events(request(folder, steps=3))]
    assert isinstance(again[-1], Finished)
    assert [event for event in again if isinstance(event, Phase) and event.name == "loading"] == []
    many = warm.events(request(folder, seeds=tuple(range(5000))))
    next(many)
    warm.cancel()
    assert [*many][-1] == Stopped(0, "stop")
    assert warm.pid == pid
    os.kill(pid, signal.SIGKILL)
    assert isinstance([*warm.events(request(folder))][-1], Finished)
    assert warm.pid not in (pid, None)
    warm.close()
    assert warm.pid is None


@pytest.mark.usefixtures("in_this_process")
def test_what_a_person_can_put_right_is_one_message_and_exit_code_2(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    # LCM's limit is known to the engine alone, so that this comes from the job.
    assert main(["sample", "base", *SMALL, "--sampler", "lcm", "--steps", "60"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == (
        "60 sampling steps are too many for LCM. It supports at most 50. Lower the number of"
        " sampling steps or choose another sampler."
    )


def noisy(arguments):
    """The worker, in which a library prints what could be an event."""

    def sample(*given):
        os.write(1, b'{"type": "Warned", "text": "a library\'s"}\n')
        print("more of it", flush=True)
        return original(*given)

    original, sampling.sample = sampling.sample, sample
    return worker.main(arguments)


def test_a_killed_job_is_reported_with_what_libraries_printed(folder, forked, tmp_path):
    forked(noisy)
    started = Job("sample", request(folder, seeds=tuple(range(500))))
    events = started.events()
    first = next(events)  # what was printed came before it
    os.kill(started.pid, signal.SIGKILL)
    *_, ending = events
    assert isinstance(first, Phase)
    assert isinstance(ending, Failed)
    assert (ending.kind, "SIGKILL" in ending.what) == ("program", True)
    assert all(text in ending.remedy for text in (str(started.log), "a library's", "more of it"))
    assert logs(tmp_path) == [started.log.name]
