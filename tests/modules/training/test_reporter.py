"""What a run reports of its steps, and how seldom it waits for it."""

import psutil
import pytest
import torch

from modules.assembly import tasks
from modules.interfaces import ANCHOR, LAST_STEPS, REWARD, REWARD_PREFIX, Loss
from modules.optim.step_check import StepCheck
from modules.training import reporter as metrics
from modules.training.reporter import Reporter
from modules.training.time_left import TaskTimes, seconds_left
from onetrainer.run.event_log import EventWriter, read_all
from onetrainer.run.events import Measured, Progress, Rewarded
from tests import pretend
from tests.close import near

REWARDS = torch.tensor([1.0, 2.0, 6.0])


def losses(device, *, on_host=()):
    """A step of three images in two microbatches. on_host: scores that are in host memory."""
    scores = {
        REWARD: REWARDS,
        REWARD_PREFIX + "color": REWARDS / 2,
        LAST_STEPS: torch.tensor([1.0, 2.0, 3.0]),
        ANCHOR: torch.tensor([0.5, 0.5, 2.0]),
    }
    placed = {name: own if name in on_host else own.to(device) for name, own in scores.items()}
    return [
        Loss(
            torch.zeros(()),
            -placed[REWARD].to(device)[rows],
            {name: own[rows] for name, own in placed.items()},
        )
        for rows in (slice(0, 2), slice(2, 3))
    ]


def checked(device):
    """The check of a step without fault, whose gradient's norm is 2."""
    return StepCheck.of(
        torch.zeros((), device=device),
        torch.tensor([2.0], device=device),
        (),
        may_overflow=False,
    )


def reported(path, device, steps, **settings):
    events = EventWriter(path)
    reporter = Reporter(events, device=torch.device(device), total_steps=9, on_broken=pytest.fail)
    for step in range(1, steps + 1):
        lr = torch.tensor(0.25, device=device) if step % 2 else 1e-4
        reporter.progress(
            step=step, epoch=0, lr=lr, losses=losses(device, **settings), check=checked(device)
        )
    reporter.flush()
    events.close()
    return read_all(path)


def test_each_rewarded_step_is_reported_with_means_and_spreads(tmp_path):
    (rewarded, progress, _) = reported(tmp_path / "events.jsonl", "cpu", 1)
    assert isinstance(rewarded, Rewarded)
    assert isinstance(progress, Progress)
    assert (rewarded.step, rewarded.images, rewarded.last_steps, rewarded.anchor) == (1, 3, 2, 1)
    assert (rewarded.reward, rewarded.spread) == near((3, REWARDS.std().item()))
    color = rewarded.by_name["color"]
    assert (color["mean"], color["spread"]) == near((1.5, REWARDS.std().item() / 2))
    assert (progress.loss, progress.lr) == (-3, 0.25)


@pytest.mark.parametrize("on_host", [(), (REWARD, ANCHOR)])
def test_all_figures_of_many_steps_are_read_from_a_gpu_at_once(tmp_path, monkeypatch, on_host):
    monkeypatch.setattr(metrics, "_MAX_UNREAD_SECONDS", float("inf"))
    with pretend.accelerator() as gpu:
        events = reported(tmp_path / "events.jsonl", "cuda", 4, on_host=on_host)
        reads = [sync.where.partition(":")[0] for sync in gpu.syncs]
    assert [place for place in reads if "tests" not in place] == ["modules/memory/to_device.py"]
    assert [event.step for event in events] == [1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [event.lr for event in events if isinstance(event, Progress)] == [0.25, 1e-4] * 2
    assert all(event.reward == 3 for event in events if isinstance(event, Rewarded))


def test_a_gpu_stays_a_few_steps_behind_and_only_the_oldest_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "_MAX_UNREAD_SECONDS", float("inf"))
    path, device = tmp_path / "events.jsonl", torch.device("cuda")
    with pretend.accelerator() as gpu:
        events = EventWriter(path)
        reporter = Reporter(events, device=device, total_steps=99, on_broken=pytest.fail)
        step_losses, check = losses(device), checked(device)
        gpu.syncs.clear()
        for step in range(1, 13):
            reporter.progress(step=step, epoch=0, lr=1e-4, losses=step_losses, check=check)
        steps = [event.step for event in read_all(path) if isinstance(event, Progress)]
        assert steps == [1, 2, 3, 4]
        assert [sync.what for sync in gpu.syncs] == ["event.synchronize"] * 4
        reporter.flush()
        assert len(gpu.syncs) == 5
        events.close()
    assert [event.step for event in read_all(path)][-1] == 12


def test_more_is_measured_every_few_seconds_and_read_with_the_losses(tmp_path, monkeypatch):
    """Steps of 2 s in the first minute, later of 100 s after an hour: 1/500 of it is 7 s."""
    now = 0.0
    monkeypatch.setattr(metrics, "monotonic", lambda: now)
    monkeypatch.setattr(metrics, "_MAX_UNREAD_SECONDS", float("inf"))
    asked = []
    with pretend.accelerator() as gpu:
        device = torch.device("cuda")
        estimated = torch.tensor(2e-4, device=device)

        def rates():
            asked.append(now)
            return {"unet": 1e-4, "unet 2": estimated}

        events = EventWriter(tmp_path / "events.jsonl")
        reporter = Reporter(
            events, device=device, total_steps=9, on_broken=pytest.fail, rates=rates
        )
        step_losses, check = losses(device), checked(device)
        gpu.syncs.clear()
        for step, seconds in enumerate((2, 2, 2, 2, 3600, 4, 4), start=1):
            now += seconds
            reporter.progress(step=step, epoch=0, lr=1e-4, losses=step_losses, check=check)
        reporter.flush()
        assert len(gpu.syncs) == 1
        events.close()
    measured = [event for event in read_all(tmp_path / "events.jsonl") if type(event) is Measured]
    assert [event.step for event in measured] == [1, 4, 5, 7]
    assert asked == [2, 8, 3608, 3616]
    one = measured[-1]
    assert one.learning_rates == near({"unet": 1e-4, "unet 2": 2e-4})
    assert (one.images, one.temperature, one.power_watts) == (3, None, None)
    assert one.host_bytes > 1 << 20


def test_fast_steps_are_written_some_at_once_and_slow_ones_as_they_end(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(metrics, "monotonic", lambda: now)
    path, asked = tmp_path / "events.jsonl", []
    own_memory = psutil.Process.memory_info
    monkeypatch.setattr(
        psutil.Process, "memory_info", lambda self: asked.append(now) or own_memory(self)
    )
    events = EventWriter(path)
    reporter = Reporter(events, device=torch.device("cpu"), total_steps=99, on_broken=pytest.fail)
    written = []
    for step, seconds in enumerate([0.01] * 19 + [0.3, 0.01], start=1):
        now += seconds
        reporter.progress(step=step, epoch=0, lr=1e-4, losses=losses("cpu"), check=checked("cpu"))
        written.append(len([e for e in read_all(path) if isinstance(e, Progress)]))
    assert written == [0] * 7 + [8] * 8 + [16] * 4 + [20] * 2
    reporter.flush()
    events.close()
    steps = [event for event in read_all(path) if isinstance(event, Progress)]
    assert [event.step for event in steps] == list(range(1, 22))
    assert len(asked) == 1
    assert all(event.memory_bytes > 1 << 20 for event in steps)


def test_the_time_left_counts_what_is_done_between_steps_and_at_the_end(tmp_path, monkeypatch):
    """Steps of 1 s, and samples of 10 s after every third, guessed to take as long as 4 steps."""
    now, left = 0.0, {}
    for module in (metrics, tasks):
        monkeypatch.setattr(module, "monotonic", lambda: now)

    class Samples:
        def run(self, step):
            nonlocal now
            now += 10

    for name, at in (("samples", (3, 6, 9)), ("nothing else", ())):
        times = TaskTimes(lambda step, at=at: sum(each >= step for each in at), guess=4)
        events = EventWriter(tmp_path / name)
        reporter = Reporter(
            events, device=torch.device("cpu"), total_steps=9, on_broken=None, task_times=[times]
        )
        reporter.start_clock(0)
        for step in range(1, 10):
            now += 1
            reporter.progress(
                step=step, epoch=0, lr=1e-4, losses=losses("cpu"), check=checked("cpu")
            )
            if step in at:
                tasks.TimedTask(Samples(), times).run(step)
                reporter.start_clock(step)
        reporter.flush()
        events.close()
        found = read_all(tmp_path / name)
        left[name] = [event.eta_seconds for event in found if isinstance(event, Progress)]
    assert left["nothing else"] == [8, 7, 6, 5, 4, 3, 2, 1, -1]
    guessed, measured = 3 * 4, (2 * 10, 10)
    assert left["samples"] == [
        *(8 + guessed, 7 + guessed, 6 + guessed),
        *(5 + measured[0], 4 + measured[0], 3 + measured[0]),
        *(2 + measured[1], 1 + measured[1], measured[1]),
    ]


def test_while_anything_is_left_to_do_at_least_a_second_is_left():
    soon = TaskTimes(lambda _: 1, count=1, seconds=0.01)
    assert seconds_left(9, 9, 1000.0, [soon]) == seconds_left(8, 9, 1000.0, []) == 1
    assert seconds_left(9, 9, 1000.0, []) == seconds_left(8, 9, 0.0, [soon]) == -1
