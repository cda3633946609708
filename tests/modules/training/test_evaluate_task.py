"""Whole runs that validate: nothing of training changes, and what is reported, kept and resumed."""

import json
import shutil
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file

from modules.evaluation.validation import ImageEvaluation
from modules.jobs.train import train
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter
from modules.training.sample_task import TaskProgress
from onetrainer.config.run.validation import Validation
from onetrainer.presets.presets import resolve
from onetrainer.run.events import Finished, Phase, Progress, Sample, Stopped, Validated, Warned
from onetrainer.run.run_folder import create_run
from tests import runs, table, tiny
from tests.cases import cases
from tests.close import near
from tests.each import each

pytestmark = pytest.mark.slow

STEPS = 4
DROPOUT = {"dropout": 0.3, "rank_dropout": 0.2, "module_dropout": 0.1}
CASES = {
    "lora": {"method": {"kind": "lora", "rank": 2, **DROPOUT, **tiny.encoders()}},
    "lora-ema": {
        "method": {"kind": "lora", "rank": 2, **DROPOUT, **tiny.encoders()},
        "ema": {"use": True},
        "hardware": {"precision": "bf16"},
    },
    "full-schedule-free": {
        "method": {"kind": "full", "weights": "fp32", **tiny.encoders()},
        "optimizer": {"kind": "schedulefree_adamw", "lr": 1e-2},
    },
    "full-bf16": {
        "method": {"kind": "full", "weights": "bf16", "stochastic_rounding": True},
        "optimizer": {"kind": "adamw", "lr": 1e-3, "fused_backward": True},
        "training": {"gradient_clipping": 0.0},
        "ema": {"use": True, "device": "host"},
        "hardware": {"precision": "bf16"},
    },
    "embedding": {**table.METHODS["embedding"], "ema": {"use": True}},
    "output-embedding": {**table.METHODS["output-embedding"], "hardware": {"precision": "bf16"}},
    "vae": table.METHODS["vae"],
}
SPLIT = {"use": True, "split": 0.3, "every": 1}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = table.write_project(tmp_path_factory.mktemp("validated"), "sd15")
    tiny.write_images(folder / "held" / "some", (f"a {table.WORD} dot", "a line"))
    tiny.write_images(folder / "held", ("nothing",))
    return folder


@pytest.fixture(scope="module")
def straight(project):
    """A run that validates after every step, which nothing has interrupted."""
    return done(validated(project))


def new_run(project, **changes):
    document = {
        "model": {"path": str(project / "base")},
        "data": {"folder": str(project / "pictures"), "resolution": 64},
        "training": {"steps": STEPS, "batch_size": 2, "seed": 5},
        "optimizer": {"lr": 1e-2},
        "sampling": {"every": 0, "at_start": False, "at_end": False, "steps": 2},
        "output": {"name": "made", "save_every": 0, "precision": "fp32"},
        "hardware": {"precision": "fp32", "threads": 1},
    }
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    config = resolve(document, source="").model_dump(mode="json")
    return create_run(project / "runs", name="run", config=config)


def validated(project, **changes):
    """A run that validates after every step, with images of its own."""
    section = {"use": True, "folder": str(project / "held"), "every": 1, "timesteps": 2}
    changes["validation"] = section | changes.get("validation", {})
    changes["data"] = {"include_subfolders": True} | changes.get("data", {})
    return new_run(project, **changes)


def done(folder):
    assert train(folder) == 0
    return folder


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def finished(folder):
    return reported(folder, Finished)[-1]


def losses(folder):
    return [(event.step, event.loss) for event in reported(folder, Progress)]


def steps_of(folder):
    return [number for number, _ in folder.complete_checkpoints()]


def change(folder, **sections):
    document = json.loads(folder.config.read_text())
    for section, values in sections.items():
        document[section] |= values
    folder.config.write_text(json.dumps(document))


def stop_in_validation(monkeypatch, number):
    """Ask a run to stop when the second image of its n-th validation is about to be measured."""
    seen, original = [], TaskProgress.report

    def report(self, phase, **arguments):
        seen.append(phase.done)
        if phase.done == 1 and seen.count(0) == number:
            monkeypatch.setattr(Inbox, "leaving", "stop")
        original(self, phase, **arguments)

    monkeypatch.setattr(TaskProgress, "report", report)


def assert_same_weights(path, other):
    one, other = load_file(path), load_file(other)
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one), path.name


@pytest.mark.parametrize("case", cases(CASES, ("lora-ema",)))
def test_training_is_the_same_with_validation_and_samples_as_without(project, case):
    changes = CASES[case]
    plain = done(new_run(project, **changes))
    prompt = {"prompt": f"a {table.WORD}", "width": 64, "height": 64}
    both = {"sampling": {"every": 2, "prompts": [prompt]}}
    evaluated = done(validated(project, **changes, **both, validation={"without_ema": True}))
    assert [event.step for event in reported(evaluated, Sample)] == [2, 4]
    assert len({event.step for event in reported(evaluated, Validated)}) == STEPS + 1
    assert losses(evaluated) == losses(plain)
    for file in sorted(plain.checkpoint(STEPS).glob("*.safetensors")):
        assert (evaluated.checkpoint(STEPS) / file.name).read_bytes() == file.read_bytes(), (
            file.name
        )
    for file in sorted(plain.output.rglob("*.safetensors")):
        assert_same_weights(file, evaluated.output / file.relative_to(plain.output))


def test_what_is_measured_is_reported_with_concepts_and_levels(project):
    folder = done(validated(project, validation={"timesteps": 3, "noises": 2, "every": 4}))
    first, last = reported(folder, Validated)
    assert (first.verdict, first.step, first.images) == ("first", 0, 3)
    assert first.by_concept.keys() == first.concepts.keys() == {"", "some"}
    assert first.concepts["some"]["loss"] == first.by_concept["some"]
    assert len(first.by_level) == 3
    mean = (first.by_concept[""] + 2 * first.by_concept["some"]) / 3
    assert (first.loss, first.loss) == near((mean, sum(first.by_level) / 3))
    assert last.since_start == near(last.loss - first.loss)
    assert last.verdict == "improving"
    document = json.loads((folder.validation / "step-000000.json").read_text())
    assert [len(row) for row in document["losses"]["shown"].values()] == [6] * 3
    phases = [event for event in reported(folder, Phase) if event.name == "validating"]
    # On a slow machine the images after the first are reported, too.
    assert [event.total for event in phases if event.done == 0] == [3, 3]


def test_what_is_not_cached_is_encoded_to_the_same_measurements(project, straight):
    """Before training, also where the text encoder is to train."""
    uncached = {"cache_text": False, "cache_latents": False}
    restarted = validated(project, training={"steps": 1}, data=uncached, method=tiny.encoders())
    first = reported(done(restarted), Validated)[0]
    assert first.loss == near(reported(straight, Validated)[0].loss)


@each(
    ("section", "expected"),
    [
        ({"every": 2}, [0, 2, 4]),
        ({"every": 3, "at_start": False}, [3, 4]),
        ({"every": 0, "at_end": False}, [0]),
        ({"every": "2 epochs", "at_start": False, "at_end": False}, [4]),
        ({"every": "1 epoch"}, [0, 2, 4]),
    ],
)
def test_it_is_due_when_the_config_says(section, expected):
    """Of four steps, two an epoch."""
    empty = ImageEvaluation(**dict.fromkeys(field.name for field in fields(ImageEvaluation)))
    settings = Validation(use=True, **section)
    own = replace(empty, section=settings, steps=4, plan=SimpleNamespace(epoch_of=lambda n: n // 2))
    assert [step for step in range(5) if own.is_due(step)] == expected


def test_the_average_and_the_last_weights_are_measured_and_resumed(project, straight, monkeypatch):
    ema = {"ema": {"use": True, "decay": 0.9, "ramp": False}, "output": {"save_every": 2}}
    section = {"without_ema": True, "keep_best": False}
    both = done(validated(project, **ema, validation=section))
    by_weights = {"sampling": [], "without_ema": []}
    for event in reported(both, Validated):
        by_weights[event.weights].append(event.loss)
    assert by_weights["without_ema"] == [event.loss for event in reported(straight, Validated)]
    assert by_weights["sampling"][0] == by_weights["without_ema"][0]
    assert by_weights["sampling"][-1] != by_weights["without_ema"][-1]
    folder, original = validated(project, **ema, validation=section), Reporter.progress

    def crash(self, **arguments):
        if arguments["step"] == 4:
            raise KeyboardInterrupt
        original(self, **arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "progress", crash)
        with pytest.raises(KeyboardInterrupt):
            train(folder)
    assert (folder.validation / "step-000003.json").is_file()
    done(folder)
    assert reported(folder, Validated) == reported(both, Validated)
    for path in both.validation.iterdir():
        assert (folder.validation / path.name).read_bytes() == path.read_bytes()


def test_a_validation_that_a_stop_ends_is_made_when_resumed_and_the_last_is_finished(
    project, straight, monkeypatch
):
    folder = validated(project)
    with monkeypatch.context() as patch:
        stop_in_validation(patch, 3)
        assert train(folder) == 3
    assert [event.step for event in reported(folder, Validated)] == [0, 1]
    with monkeypatch.context() as patch:
        stop_in_validation(patch, 3)  # of steps 2, 3 and 4: the last
        assert train(folder) == 0
    assert reported(folder, Validated) == reported(straight, Validated)
    assert losses(folder) == losses(straight)


def test_what_was_measured_and_not_reported_is_reported_without_measuring_again(
    project, monkeypatch
):
    folder = done(validated(project, training={"steps": 2}))
    record = json.loads((folder.checkpoint(2) / "state.json").read_text())
    lines = folder.events.read_bytes()[: record["events_size"]].splitlines(keepends=True)
    record["events_size"] -= len(lines[-1])  # the worker died before it reported the last one
    assert b'"Validated"' in lines[-1]
    del record["files"], record["sha256"]  # as an earlier version wrote it
    (folder.checkpoint(2) / "state.json").write_text(json.dumps(record))
    before = reported(folder, Validated)
    monkeypatch.setattr("modules.evaluation.validation.measure", None)  # would fail
    done(folder)
    assert reported(folder, Validated) == before


@pytest.mark.parametrize("case", cases(CASES, ("full-schedule-free",)))
def test_the_best_checkpoint_is_kept_and_becomes_the_file_of_a_run_that_ended_there(
    project, case, monkeypatch
):
    changes = CASES[case]
    training = {**changes.get("training", {}), "steps": 2}
    expected = done(new_run(project, **changes | {"training": training}))
    runs.script_validations(monkeypatch, 0.9, 0.7, 0.5, 0.6, 0.8)
    folder = done(validated(project, **changes, output={"keep_checkpoints": 1}))
    assert steps_of(folder) == [2, 4]
    for path in expected.output.rglob("*.safetensors"):
        assert_same_weights(path, folder.output / path.name.replace("made", "made-best"))
    assert finished(folder).summary[1:] == [
        "The validation loss was best at step 2, 0.55; the last one (0.85) is 55 % above it.",
        "made-best.safetensors holds the weights of step 2.",
    ]


def test_the_best_has_no_file_of_its_own_if_it_is_the_last_or_the_base_or_not_asked_for(
    project, monkeypatch
):
    for values, keep_best, summary in (
        (
            *((0.9, 0.8, 0.7, 0.6, 0.5), True),
            "The last validation loss, 0.55, is the best: 42 % below the first.",
        ),
        (
            *((0.5, 0.6, 0.7, 0.8, 0.9), True),
            "The validation loss was best before training, 0.55; the last one (0.95) is 73 % above"
            " it.",
        ),
        (
            *((0.9, 0.5, 0.6, 0.7, 0.8), False),
            "The validation loss was best at step 1, 0.55; the last one (0.85) is 55 % above it.",
        ),
    ):
        runs.script_validations(monkeypatch, *values)
        output = {"keep_checkpoints": 1}
        folder = done(validated(project, validation={"keep_best": keep_best}, output=output))
        assert steps_of(folder) == [4]
        assert finished(folder).outputs == ["output/made.safetensors"]
        assert finished(folder).summary[1:] == [summary]


def test_stopping_writes_the_best_by_its_step(project, monkeypatch):
    runs.script_validations(monkeypatch, 0.9, 0.5, 0.6, 0.7, 0.8)
    folder, original = validated(project), Reporter.progress

    def progress(self, **arguments):
        if arguments["step"] == 3:
            monkeypatch.setattr(Inbox, "leaving", "stop")
        original(self, **arguments)

    monkeypatch.setattr(Reporter, "progress", progress)
    assert train(folder) == 3
    assert reported(folder, Stopped)[0].outputs == [
        "output/made-000003.safetensors",
        "output/made-000001.safetensors",
    ]


def test_patience_ends_a_run_which_goes_on_with_more_patience_only(project, monkeypatch):
    runs.script_validations(monkeypatch, 0.9, 0.5, 0.6, 0.7, 0.4, 0.3, 0.2)
    sampling = {"at_end": True, "prompts": [{"prompt": "a", "width": 64, "height": 64}]}
    validation = {**SPLIT, "patience": 2}
    folder = new_run(project, training={"steps": 6}, sampling=sampling, validation=validation)
    done(folder)
    end = finished(folder)
    assert (end.step, end.summary[0]) == (3, "Trained on 3 images.")
    assert end.summary[1] == (
        "Stopped early after step 3: 2 validations in a row were no better than at step 1. To go"
        ' on, raise validation.patience ("Early stopping after") in the run\'s config.json and'
        " resume it."
    )
    assert end.outputs == ["output/made.safetensors", "output/made-best.safetensors"]
    assert [event.step for event in reported(folder, Sample)] == [3]
    assert steps_of(folder) == [1, 3]
    assert {event.images for event in reported(folder, Validated)} == {1}
    done(folder)
    assert finished(folder).step == 3
    assert finished(folder).summary[1].startswith("Nothing was trained")
    assert [step for step, _ in losses(folder)] == [1, 2, 3]
    change(folder, validation={"patience": 3})
    done(folder)
    assert [step for step, _ in losses(folder)] == [1, 2, 3, 4, 5, 6]
    assert finished(folder).summary[1].startswith("The last validation loss, 0.25,")


def test_the_same_images_go_on_with_their_history_and_others_begin_a_new_one(project, monkeypatch):
    runs.script_validations(monkeypatch, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
    folder = done(new_run(project, training={"steps": 1}, validation=SPLIT))
    change(folder, training={"steps": 2})
    done(folder)
    assert reported(folder, Validated)[-1].since_start == near(0.7 - 0.9)
    assert "validation" not in str(reported(folder, Warned))
    change(folder, training={"steps": 3}, validation={"use": False})
    done(folder)
    change(folder, training={"steps": 5}, validation={"use": True})
    done(folder)
    verdicts = [event.verdict for event in reported(folder, Validated) if event.step > 2]
    assert verdicts == ["first", "improving", "improving"]
    texts = " ".join(event.text for event in reported(folder, Warned))
    assert "not set aside at the checkpoint" in texts
    change(folder, training={"steps": 6})
    done(folder)  # the steps before validation was off still do not count
    assert reported(folder, Validated)[-1].since_start == near(0.3 - 0.6)


def test_only_what_has_changed_is_said_to_have(project, tmp_path, monkeypatch):
    runs.script_validations(monkeypatch, *[0.9] * 9)
    data = {"folder": str(shutil.copytree(project / "pictures", tmp_path / "own"))}
    folder = done(new_run(project, training={"steps": 1}, validation=SPLIT, data=data))
    captions = sorted((tmp_path / "own").glob("*.txt"))
    kinds = ("the captions", "training images", "not set aside", "the data")
    for steps, change_it, said in (
        (2, lambda: change(folder, training={"steps": 2, "seed": 5}), []),
        (3, lambda: [path.write_text("another") for path in captions], kinds[:1]),
        (4, lambda: change(folder, validation={"seed": 3}), kinds[:3]),
    ):
        before = len(reported(folder, Warned))
        change_it()
        change(folder, training={"steps": steps})
        done(folder)
        texts = " | ".join(event.text for event in reported(folder, Warned)[before:])
        assert [kind for kind in kinds if kind in texts] == [*said]


def test_another_grid_begins_a_new_history(project, monkeypatch):
    runs.script_validations(monkeypatch, 0.9, 0.8, 0.7)
    folder = done(validated(project, training={"steps": 1}))
    change(folder, training={"steps": 2}, validation={"timesteps": 3})
    done(folder)
    assert [event.verdict for event in reported(folder, Validated)][2:] == ["first"]
