"""A short part of the campaign, by a seed; all of it is `make faults`.

What each run of the tests holds of kills, signals and damaged or full disks, at set moments:
tests/modules/runs/test_run.py, test_run_failures.py, test_run_leaving.py and test_queue.py there,
tests/onetrainer/queue/test_serve.py, tests/modules/jobs/test_caption.py.
"""

import runpy
import sys
import threading

import pytest
import torch

from onetrainer.gpu_driver import present
from onetrainer.run.device_owner import Owner, owning
from onetrainer.run.user_folder import user_folder
from tests.faults import input_faults
from tests.faults.caption_faults import KilledWriting, masking
from tests.faults.input_faults import damaged_files, hostile_configs
from tests.faults.queue_faults import KilledQueue
from tests.faults.run_faults import FaultyRuns
from tests.faults.stranger_faults import StrangersRuns
from tests.faults.trial_faults import KilledTrials

pytestmark = pytest.mark.slow
SEED = 1


def require_sound(results):
    broken = [result for result in results if result.problems]
    assert not broken, "\n".join(map(str, broken))


@pytest.mark.long
def test_a_run_survives_what_happens_to_it(tmp_path):
    faulty = FaultyRuns(tmp_path, "lora-accumulation")
    assert faulty.operations > 150  # moments to plant a fault at
    require_sound(faulty.campaign(("kill", "cut", "full", "SIGTERM"), times=1, seed=SEED))
    require_sound(faulty.flips(times=2, seed=SEED))


@pytest.mark.long
def test_a_queue_goes_on_after_kills_and_no_run_is_lost_started_twice_or_half_written(tmp_path):
    results = [*KilledQueue(tmp_path).campaign(times=3, seed=276)]
    kinds = ("as it has started", "a worker and", "server alone, before", "nothing")
    assert [kind in one.doing for kind, one in zip(kinds, results, strict=True)] == [True] * 4
    require_sound(results)


@pytest.mark.long
def test_killed_jobs_describe_each_image_once_and_killed_writings_can_be_taken_back(tmp_path):
    jobs = KilledQueue(tmp_path / "jobs", masking)
    results = [*jobs.campaign(times=2, seed=6)]
    assert any("each worker alone" in result.doing for result in results)
    require_sound(results)
    require_sound(KilledWriting(tmp_path / "writing").campaign(times=1, seed=SEED))


@pytest.mark.long
def test_a_killed_worker_of_try_model_leaves_whole_images_and_the_next_gives_the_same(tmp_path):
    require_sound(KilledTrials(tmp_path).campaign(times=8, seed=SEED))


def test_a_campaign_ends_while_whoever_starts_it_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(present, "GPU_DEVICES", (str(tmp_path),))  # one that nobody shares
    monkeypatch.setattr(sys, "argv", ["faults", "flips", "--case", "embedding", "--times", "1"])
    threads = torch.get_num_threads()
    before = {*user_folder().rglob("*")}
    with owning(["cpu", "gpu-0"], Owner("own-001")), pytest.raises(SystemExit) as ended:
        runpy.run_module("tests.faults", run_name="__main__")
    torch.set_num_threads(threads)
    assert ended.value.code == 0
    left = {path.suffix for path in {*user_folder().rglob("*")} - before if path.is_file()}
    assert left <= {".lock", ".wanted"}  # of the owner above


def test_what_a_stranger_plants_into_a_run_reaches_nothing_outside_of_it(tmp_path):
    require_sound(StrangersRuns(tmp_path).campaign(times=3, seed=SEED))


def test_an_answer_that_never_comes_is_a_problem(monkeypatch):
    monkeypatch.setattr(input_faults, "MOST_WAITING", 0.05)
    monkeypatch.setattr(input_faults, "main_quietly", lambda _: threading.Event().wait())
    (problem,) = input_faults._answer(["check"], "configs", "", b"").problems
    assert problem.startswith("no answer")


def test_no_config_and_no_file_ends_in_a_traceback(tmp_path):
    require_sound(hostile_configs(tmp_path / "configs", times=50, seed=SEED))
    require_sound(damaged_files(tmp_path / "files", times=30, seed=SEED))
