"""The self-test trains, saves and resumes for real, and notices when one of these does not work."""

import math
import shutil

import pytest

from modules import devices
from modules.jobs import self_test as job
from modules.jobs.self_test import self_test
from onetrainer.errors import UserError
from onetrainer.jobs.self_test_request import SelfTestRequest
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Progress, Started


def test_five_steps_are_trained_and_what_goes_wrong_is_noticed(monkeypatch):
    messages = []

    def refused(run):
        with pytest.raises(UserError) as caught:
            judge(run, "here")
        messages.append(caught.value.what)

    def judge_and_break(run, where):
        judge(run, where)
        whole = run.events.read_bytes()
        before, after = run.checkpoint(3), run.checkpoint(5)
        shutil.copyfile(before / job.WEIGHTS_FILE, after / job.WEIGHTS_FILE)
        refused(run)
        for event in (Progress(5, 5, 0, math.nan, 0.001), Started(1, 0, 5)):
            events = EventWriter(run.events)
            events.write(event)
            events.close()
            refused(run)
            run.events.write_bytes(whole)

    judge = job._require_trained
    monkeypatch.setattr(job, "_require_trained", judge_and_break)
    finished = self_test(SelfTestRequest(device="cpu"), lambda _: None)
    assert finished.summary[0].startswith("five steps on cpu in fp32, saved and resumed, in ")
    words = ("weights did not change", "finite losses", "began at [0, 3, 0]")
    assert all(word in message for word, message in zip(words, messages, strict=True)), messages


def test_what_torch_sees_is_described():
    found = devices.describe()
    assert set(found) == {"torch", "cuda", "rocm", "mps", "cpu", "gpus", "warning"}
    assert "cores" in found["cpu"]
