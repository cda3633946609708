"""Runs whose lengths are in epochs or images: equal to runs of as many steps, bit for bit."""

import json

import pytest
from safetensors.torch import load_file

from modules.jobs.train import train
from modules.training.reporter import Reporter
from modules.training.tasks import SaveTask
from onetrainer.errors import UserError
from onetrainer.run.events import Phase, Progress, Sample, Started
from tests import runs

AMOUNTS = {
    "training": {"steps": "3 epochs"},
    "schedule": {"warmup_steps": "4 images"},
    "method": {"unet": {"stop_after": "20 images"}},
    "output": {"save_every": "8 images"},
    "sampling": {"every": "2 epochs", "at_end": False},
}
# Four images, two a step: an epoch has two steps.
STEPS = {
    "training": {"steps": 6},
    "schedule": {"warmup_steps": 2},
    "method": {"unet": {"stop_after": 10}},
    "output": {"save_every": 4},
    "sampling": {"every": 4, "at_end": False},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("lengths"))


def test_a_run_in_epochs_and_images_is_one_in_steps(project):
    made, same = runs.new_run(project, **AMOUNTS), runs.new_run(project, **STEPS)
    assert train(made) == train(same) == 0
    assert json.loads(made.lengths.read_text()) == {
        "3 epochs": 6,
        "4 images": 2,
        "20 images": 10,
    }
    assert not same.lengths.exists()
    files = [load_file(run.output / "my-lora.safetensors") for run in (made, same)]
    assert all(tensor.equal(files[1][name]) for name, tensor in files[0].items())
    assert [step for step, _ in made.complete_checkpoints()] == [4, 6]
    events = runs.events_of(made)
    assert [event.step for event in events if isinstance(event, Sample)] == [0, 4]
    assert {event.total_steps for event in events if isinstance(event, Progress)} == {6}
    assert Phase("loading", detail="3 epochs = 6 steps") in events
    assert next(event for event in events if isinstance(event, Started)).total_steps == 0


def test_what_was_decided_stays_and_a_new_length_is_decided_anew(project):
    changes = {"training": {"steps": "1 epoch"}, "schedule": {"warmup_steps": "1 image"}}
    run = runs.new_run(project, **AMOUNTS | changes)
    assert train(run) == 0
    run.lengths.write_text('{"1 epoch": 3, "1 image": 1, "20 images": 10}')
    assert train(run) == 0  # as decided before the images changed
    config = json.loads(run.config.read_text())
    config["training"]["steps"] = "2 epochs"
    run.config.write_text(json.dumps(config))
    assert train(run) == 0
    assert json.loads(run.lengths.read_text())["2 epochs"] == 4
    assert [step for step, _ in run.complete_checkpoints()] == [3, 4]
    run.lengths.write_text("{")
    with pytest.raises(UserError, match="Delete it"):
        train(run)


def clocked(monkeypatch, seconds):
    """The clock of the lengths goes on by so much with each step of a trainer."""
    now, progress = [0.0], Reporter.progress

    def counted(self, **step):
        now[0] += seconds
        progress(self, **step)

    monkeypatch.setattr(Reporter, "progress", counted)
    monkeypatch.setattr("modules.assembly.lengths.monotonic", lambda: now[0])


def test_a_run_in_minutes_is_one_of_as_many_steps_and_resumes_exactly(project, monkeypatch):
    minutes = {"training": {"steps": "2 minutes"}, "schedule": {"warmup_steps": "0.5 minutes"}}
    made = runs.new_run(project, **minutes, sampling={"every": "1 minute"})
    steps = {"training": {"steps": 8}, "schedule": {"warmup_steps": 2}}
    same = runs.new_run(project, **steps, sampling={"every": 4})
    monkeypatch.setattr("modules.assembly.lengths.TIMED_STEPS", 2)
    clocked(monkeypatch, 15.0)
    save = SaveTask.checkpoint

    def die(self, step):
        save(self, step)
        if step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(SaveTask, "checkpoint", die)
    with pytest.raises(KeyboardInterrupt):
        train(made)
    monkeypatch.setattr(SaveTask, "checkpoint", save)
    clocked(monkeypatch, 99.0)  # another computer
    assert train(made) == train(same) == 0
    assert json.loads(made.lengths.read_text()) == {"2 minutes": 8, "0.5 minutes": 2, "1 minute": 4}
    files = [load_file(run.output / "my-lora.safetensors") for run in (made, same)]
    assert all(tensor.equal(files[1][name]) for name, tensor in files[0].items())
    events = [runs.events_of(run) for run in (made, same)]
    rates = [[e.lr for e in each if isinstance(e, Progress)] for each in events]
    samples = [[e.step for e in each if isinstance(e, Sample)] for each in events]
    assert rates[0] == rates[1]
    assert samples[0] == samples[1] == [0, 4, 8]


def test_a_damaged_image_changes_the_length_once_it_is_found(project, tmp_path):
    damaged = project.parent / "pictures" / "broken.png"
    whole = next(damaged.parent.glob("*.png")).read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    try:
        run = runs.new_run(project, training={"steps": "2 epochs", "batch_size": 1})
        assert train(run) == 0
    finally:
        damaged.unlink()
    assert json.loads(run.lengths.read_text()) == {"2 epochs": 8}
    assert run.newest_step() == 8


def test_lengths_that_do_not_go_together_are_refused_before_the_model_is_loaded(project):
    run = runs.new_run(project, training={"steps": 2}, schedule={"warmup_steps": "3 epochs"})
    with pytest.raises(UserError, match=r"the warm-up \(6 steps\) is not shorter than the run"):
        train(run)
