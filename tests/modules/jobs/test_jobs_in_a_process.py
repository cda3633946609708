"""Jobs without a run folder: `onetrainer sample`, in real processes where these matter."""

import os
import signal
import subprocess
import sys
from shlex import split

import pytest

from onetrainer import ROOT
from onetrainer.__main__ import main
from onetrainer.errors import EXIT_STOPPED
from onetrainer.jobs.job import Job
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.jobs.warm_worker import WarmWorker
from onetrainer.run.events import Failed, Finished, Phase, Stopped
from tests import tiny
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


def logs(tmp_path):
    return [path.name for path in tmp_path.glob("onetrainer-*.log")]


def command(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "onetrainer", *arguments],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


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
    done = command(folder, "sample", "base", *SMALL, "--seeds", "500", "--out", "ended")
    first = folder / "ended" / "00001-42.png"
    wait_until(lambda: first.exists() or done.poll() is not None)
    done.send_signal(signal.SIGINT)
    out, err = done.communicate(timeout=DEADLINE)
    assert (done.returncode, err) == (EXIT_STOPPED, "")
    assert out.splitlines()[-1] == "Stopped."
    assert first.exists()
    assert {path.suffix for path in (folder / "ended").iterdir()} == {".png"}
    assert logs(tmp_path) == []


def test_a_warm_worker_answers_again_without_loading_and_another_follows_a_killed_one(folder):
    worker = WarmWorker()
    assert isinstance([*worker.events(request(folder))][-1], Finished)
    pid = worker.pid
    again = [*worker.events(request(folder, steps=3))]
    assert isinstance(again[-1], Finished)
    assert [event for event in again if isinstance(event, Phase) and event.name == "loading"] == []
    many = worker.events(request(folder, seeds=tuple(range(5000))))
    next(many)
    worker.cancel()
    assert [*many][-1] == Stopped(0, "stop")
    assert worker.pid == pid
    os.kill(pid, signal.SIGKILL)
    assert isinstance([*worker.events(request(folder))][-1], Finished)
    assert worker.pid not in (pid, None)
    worker.close()
    assert worker.pid is None


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


NOISE = """
import os, sys
class Noisy:
    def find_spec(self, name, *_):
        if name == "diffusers":
            os.write(1, b'{"type": "Warned", "text": "a library\\'s"}\\n')
            print("more of it", flush=True)
sys.meta_path.insert(0, Noisy())
"""


def test_a_killed_job_is_reported_with_what_libraries_printed(folder, monkeypatch, tmp_path):
    (tmp_path / "noisy").mkdir()
    (tmp_path / "noisy" / "sitecustomize.py").write_text(NOISE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "noisy"))
    job = Job("sample", request(folder, seeds=tuple(range(500))))
    events = job.events()
    first = next(events)  # after diffusers was imported
    os.kill(job.pid, signal.SIGKILL)
    *_, ending = events
    assert isinstance(first, Phase)
    assert isinstance(ending, Failed)
    assert (ending.kind, "SIGKILL" in ending.what) == ("program", True)
    assert all(text in ending.remedy for text in (str(job.log), "a library's", "more of it"))
    assert logs(tmp_path) == [job.log.name]
