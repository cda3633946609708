"""Whole runs that validate: nothing of training changes, and what is told, kept and resumed."""

import json
from dataclasses import fields, replace

import pytest
from safetensors.torch import load_file

from modules.jobs.train import train
from modules.training import validate_task
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter
from modules.training.validate_task import ValidateTask
from onetrainer.config.run.validation import Validation
from onetrainer.run.events import Finished, Phase, Sample, Stopped, Validated
from tests import table, tiny
from tests.modules.training.validated_runs import (  # fixtures among them
    CASES,
    MEASURED_TWICE,
    STEPS,
    cases,
    change,
    done,
    losses,
    new_run,
    scripted,
    steps_of,
    told,
    validated,
)

pytestmark = pytest.mark.slow


@cases("lora-ema", "full-bf16", "embedding", "full-schedule-free")
def test_training_is_the_same_with_validation_and_samples_as_without(project, case):
    changes = CASES[case]
    plain = done(new_run(project, **changes))
    prompt = {"prompt": f"a {table.WORD}", "width": 64, "height": 64}
    both = {"sampling": {"every": 2, "prompts": [prompt]}}
    watched = done(validated(project, **changes, **both, validation={"without_ema": True}))
    if case in MEASURED_TWICE:
        again = done(validated(project, **changes))
        exported = [event for event in told(watched, Validated) if event.weights == "shown"]
        assert told(again, Validated) == exported
    assert [event.step for event in told(watched, Sample)] == [2, 4]
    assert len({event.step for event in told(watched, Validated)}) == STEPS + 1
    assert losses(watched) == losses(plain)
    for file in sorted(plain.checkpoint(STEPS).glob("*.safetensors")):
        assert (watched.checkpoint(STEPS) / file.name).read_bytes() == file.read_bytes(), file.name
    for file in sorted(plain.output.rglob("*.safetensors")):
        one, other = load_file(file), load_file(watched.output / file.relative_to(plain.output))
        assert one.keys() == other.keys()
        assert all(one[name].equal(other[name]) for name in one), file.name


def test_what_is_measured_is_told_with_concepts_and_levels(project):
    folder = done(validated(project, validation={"timesteps": 3, "noises": 2}))
    first, *_, last = told(folder, Validated)
    assert (first.verdict, first.step, first.images) == ("first", 0, 3)
    assert first.by_concept.keys() == first.concepts.keys() == {"", "some"}
    assert first.concepts["some"]["loss"] == first.by_concept["some"]
    assert len(first.by_level) == 3
    mean = (first.by_concept[""] + 2 * first.by_concept["some"]) / 3
    assert first.loss == pytest.approx(mean)
    assert first.loss == pytest.approx(sum(first.by_level) / 3)
    assert last.since_start == pytest.approx(last.loss - first.loss)
    assert last.verdict == "improving"
    document = json.loads((folder.validation / "step-000000.json").read_text())
    assert [len(row) for row in document["losses"]["shown"].values()] == [6] * 3


def test_what_is_not_cached_is_encoded_to_the_same_measurements(project, completed):
    """Before training, also where the text encoder is to train."""
    cached = completed(training={"steps": 1})
    trained = done(validated(project, training={"steps": 1}, method=tiny.encoders()))
    uncached = {"cache_text": False, "cache_latents": False}
    anew = done(validated(project, training={"steps": 1}, data=uncached))
    firsts = [told(folder, Validated)[0] for folder in (cached, trained, anew)]
    assert firsts[1].loss == pytest.approx(firsts[0].loss, rel=1e-5)
    assert firsts[2].loss == pytest.approx(firsts[0].loss, rel=1e-5)


def test_a_share_is_validation_of_what_is_trained(project):
    held = {"use": True, "split": 0.3, "every": 0}
    folder = done(new_run(project, validation=held))
    assert [event.images for event in told(folder, Validated)] == [1, 1]
    assert told(folder, Finished)[0].summary[0] == "Trained on 3 images."


def test_it_is_measured_when_the_config_says(project, monkeypatch):
    """Four pictures in batches of two: two steps an epoch."""
    scripted(monkeypatch, *[0.5] * 5)
    folder = done(validated(project, validation={"every": 2, "unit": "epochs", "at_start": False,
                                                 "at_end": False}))  # fmt: skip
    assert [event.step for event in told(folder, Validated)] == [4]
    task = ValidateTask(**dict.fromkeys(field.name for field in fields(ValidateTask)))
    epochs = {"unit": "epochs"}
    for section, expected in (
        ({"every": 2}, [0, 2, 4]),
        ({"every": 3, "at_start": False}, [3, 4]),
        ({"every": 0, "at_end": False}, [0]),
        ({"every": 2, "at_start": False, "at_end": False} | epochs, [4]),
        ({"every": 1} | epochs, [0, 2, 4]),
    ):
        settings = Validation(use=True, **section)
        each = replace(task, section=settings, steps=4, epoch_of=lambda step: step // 2)
        assert [step for step in range(5) if each.is_due(step)] == expected, section


def test_the_average_and_the_last_weights_are_both_measured_if_asked(project, completed):
    changes = {"ema": {"use": True, "decay": 0.9, "ramp": False}}
    both = done(validated(project, **changes, validation={"without_ema": True}))
    by_weights = {"shown": [], "last": []}
    for event in told(both, Validated):
        by_weights[event.weights].append(event.loss)
    alone = completed()
    assert by_weights["last"] == [event.loss for event in told(alone, Validated)]
    assert by_weights["shown"][0] == by_weights["last"][0]
    assert by_weights["shown"][-1] != by_weights["last"][-1]


def test_a_killed_run_resumes_to_the_same_measurements(project, monkeypatch):
    changes = {"ema": {"use": True}, "output": {"save_every": 2}}
    section = {"without_ema": True, "every": 1, "keep_best": False}
    straight = done(validated(project, **changes, validation=section))
    folder = validated(project, **changes, validation=section)
    crash_in_step(folder, 4, monkeypatch)
    assert (folder.validation / "step-000003.json").is_file()
    done(folder)
    assert told(folder, Validated) == told(straight, Validated)
    assert files(folder) == files(straight)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.validation.iterdir()}


def crash_in_step(folder, step, monkeypatch):
    class Crash(BaseException):
        pass

    def progress(self, **arguments):
        if arguments["step"] == step:
            raise Crash
        original(self, **arguments)

    original = Reporter.progress
    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "progress", progress)
        with pytest.raises(Crash):
            train(folder)


def stop_while_validating(folder, monkeypatch, *, step):
    """Asks a run to stop when the second picture of a validation is about to be measured."""
    seen = []

    def tell(self, before, done):
        if self._step == step and done == 1:
            seen.append(step)
            monkeypatch.setattr(Inbox, "leaving", "stop")
        original(self, before, done)

    original = validate_task._Progress.report
    with monkeypatch.context() as patch:
        patch.setattr(validate_task._Progress, "report", tell)
        code = train(folder)
    monkeypatch.undo()
    assert seen == [step]
    return code


def test_a_run_stopped_while_it_validates_measures_it_when_resumed(project, completed, monkeypatch):
    straight = completed()
    folder = validated(project)
    assert stop_while_validating(folder, monkeypatch, step=2) == 3
    assert [event.step for event in told(folder, Validated)] == [0, 1]
    done(folder)
    assert told(folder, Validated) == told(straight, Validated)
    assert losses(folder) == losses(straight)


def test_the_last_validation_is_finished_though_the_run_is_asked_to_stop(project, monkeypatch):
    folder = validated(project)
    assert stop_while_validating(folder, monkeypatch, step=STEPS) == 0
    assert [event.step for event in told(folder, Validated)] == [0, 1, 2, 3, 4]


def test_what_was_measured_and_not_told_is_told_without_measuring_again(project, monkeypatch):
    folder = done(validated(project, training={"steps": 2}))
    record = json.loads((folder.checkpoint(2) / "state.json").read_text())
    lines = folder.events.read_bytes()[: record["events_size"]].splitlines(keepends=True)
    record["events_size"] -= len(lines[-1])  # the worker died before it told of the last one
    assert b'"Validated"' in lines[-1]
    (folder.checkpoint(2) / "state.json").write_text(json.dumps(record))
    before = told(folder, Validated)
    monkeypatch.setattr(ValidateTask, "_measure", None)  # would fail if it were called
    done(folder)
    assert told(folder, Validated) == before


def test_progress_of_a_validation_is_told(completed):
    folder = completed(training={"steps": 1})
    phases = [event for event in told(folder, Phase) if event.name == "validating"]
    assert [(event.done, event.total) for event in phases] == [(0, 3), (0, 3)]


def test_the_best_checkpoint_is_kept_and_becomes_a_file(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.7, 0.5, 0.6, 0.8)
    folder = done(validated(project, output={"keep_checkpoints": 1}))
    assert steps_of(folder) == [2, 4]
    (end,) = told(folder, Finished)
    assert end.outputs == ["output/made.safetensors", "output/made-best.safetensors"]
    assert end.summary[1:] == [
        "The validation loss was best at step 2, 0.55; the last one (0.85) is 55 % above it.",
        "made-best.safetensors holds the weights of step 2.",
    ]
    monkeypatch.undo()
    short = done(new_run(project, training={"steps": 2}))
    assert_same_weights(folder.output / "made-best.safetensors", short.output / "made.safetensors")


@cases("full-schedule-free", "full-bf16")
def test_the_file_of_the_best_step_is_that_of_a_run_that_ended_there(project, case, monkeypatch):
    short = {**CASES[case]}
    short["training"] = {**short.get("training", {}), "steps": 2}
    expected = done(new_run(project, **short))
    scripted(monkeypatch, 0.9, 0.7, 0.5, 0.6, 0.8)
    folder = done(validated(project, **CASES[case]))
    for path in expected.output.rglob("*.safetensors"):
        assert_same_weights(folder.output / path.name.replace("made", "made-best"), path)


def assert_same_weights(one, other):
    one, other = load_file(one), load_file(other)
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)


def test_a_best_last_step_needs_no_file_of_its_own(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.8, 0.7, 0.6, 0.5)
    folder = done(validated(project, output={"keep_checkpoints": 1}))
    assert steps_of(folder) == [4]
    (end,) = told(folder, Finished)
    assert end.outputs == ["output/made.safetensors"]
    assert end.summary[1:] == ["The last validation loss, 0.55, is the best: 42 % below the first."]


def test_before_training_has_no_file_though_nothing_was_better(project, monkeypatch):
    scripted(monkeypatch, 0.5, 0.6, 0.7, 0.8, 0.9)
    folder = done(validated(project))
    (end,) = told(folder, Finished)
    assert end.outputs == ["output/made.safetensors"]
    assert end.summary[1].startswith("The validation loss was best before training, 0.55;")


def test_the_best_is_not_kept_unless_asked(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.5, 0.6, 0.7, 0.8)
    folder = done(validated(project, validation={"keep_best": False}))
    assert steps_of(folder) == [4]
    assert told(folder, Finished)[0].outputs == ["output/made.safetensors"]


def test_stopping_writes_the_best_by_its_step(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.5, 0.6, 0.7, 0.8)
    folder = validated(project)
    crash = Reporter.progress

    def progress(self, **arguments):
        if arguments["step"] == 3:
            monkeypatch.setattr(Inbox, "leaving", "stop")
        crash(self, **arguments)

    monkeypatch.setattr(Reporter, "progress", progress)
    assert train(folder) == 3
    assert told(folder, Stopped)[0].outputs == [
        "output/made-000003.safetensors",
        "output/made-000001.safetensors",
    ]


def test_patience_ends_a_run_and_tells_why(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.5, 0.6, 0.7, *[0.4] * 20)
    sampling = {"at_end": True, "prompts": [{"prompt": "a", "width": 64, "height": 64}]}
    folder = validated(
        project, training={"steps": 20}, sampling=sampling, validation={"patience": 2}
    )
    done(folder)
    (end,) = told(folder, Finished)
    assert end.step == 3
    assert end.summary[1] == (
        "Stopped early after step 3: 2 validations in a row were no better than at step 1. To go"
        ' on, raise validation.patience ("Early stopping after") in the run\'s config.json and'
        " resume it."
    )
    assert end.outputs == ["output/made.safetensors", "output/made-best.safetensors"]
    assert [event.step for event in told(folder, Sample)] == [3]
    assert steps_of(folder) == [1, 3]


def test_measurements_of_other_images_are_left_aside_and_that_is_told(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.8, 0.7, 0.6, 0.5)
    folder = done(validated(project, training={"steps": 2}))
    change(folder, "validation", timesteps=3)
    change(folder, "training", steps=4)
    done(folder)
    again = [event for event in told(folder, Validated) if event.step > 2]
    assert [event.verdict for event in again] == ["first", "improving"]
