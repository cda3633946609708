"""The banner offers for each kind of failure the button that the catalog names."""

import json
from functools import partial
from types import SimpleNamespace

import pytest

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.presets.presets import change_config
from onetrainer.run.events import Failed
from onetrainer.run.failures import FAILURES
from onetrainer.run.run_folder import STATE_FILE, create_run
from ui.pages.run.remedies import remedy_of

CHECKPOINTING = "hardware.gradient_checkpointing"
LABELS = {
    "device memory": "Go to “Batch size”",
    "disk full": "Open folder",
    "permission": "Open folder",
    "image": "Open folder",
    "driver": "Check this computer",
    "package": "Check this computer",
    "model family": "Go to “Model family”",
    "model file": "Go to “Base model”",
    "diverged": "Go to “Learning rate”",
    "killed": "Resume from the beginning",
    "cache": "Resume from the beginning",
}


@pytest.fixture
def done():
    return []


@pytest.fixture
def context(done):
    names = ("resume", "jump", "open_path", "examine")
    return SimpleNamespace(
        act=SimpleNamespace(
            **{
                name: partial(lambda name, *what: done.append((name, *what)), name)
                for name in names
            }
        )
    )


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path, name="run", config=TrainConfig().model_dump(mode="json"))


def test_each_kind_of_failure_has_its_button(context, run, done):
    for name, failure in FAILURES.items():
        remedy = remedy_of(context, run, name)
        if failure.button == "report":  # which the banner always offers
            assert remedy is None
        else:
            remedy.do()
            assert remedy.label == LABELS.get(name, remedy.label)
    used = {"setting": "jump", "folder": "open_path"}
    buttons = (failure.button for failure in FAILURES.values() if failure.button != "report")
    assert [name for name, *_ in done] == [used.get(button, button) for button in buttons]
    assert remedy_of(context, run, "") is remedy_of(context, run, "of a later version") is None


def test_the_button_names_the_step_that_the_run_resumes_from(context, run):
    checkpoint = run.checkpoints / "step-001200"
    checkpoint.mkdir(parents=True)
    assert remedy_of(context, run, "killed").label == "Resume from the beginning"  # incomplete
    (checkpoint / STATE_FILE).write_text("{}")
    assert remedy_of(context, run, "killed").label == "Resume from step 1,200"


def test_the_folder_of_the_failure_is_opened_or_the_nearest_that_exists(context, run, done):
    place = run.samples / "gone" / "image.png"
    remedy_of(context, run, "image", Failed("user", "x", failure="image", place=str(place))).do()
    assert done == [("open_path", run.samples)]


def test_settings_that_prevent_the_failure_are_changed_and_the_run_resumed(context, run, done):
    failed = Failed("program", "no memory", changes={CHECKPOINTING: "block"})
    remedy = remedy_of(context, run, "device memory", failed)
    assert remedy.label == "Set “Gradient checkpointing” to full and resume"
    remedy.do()
    assert done == [("resume", {CHECKPOINTING: "block"})]
    change_config(run.config, done[0][1])
    config = json.loads(run.config.read_text())
    assert config == {
        **TrainConfig().model_dump(mode="json"),
        "hardware": {**config["hardware"], "gradient_checkpointing": "block"},
    }
    # Not offered a second time, as it has not helped.
    assert remedy_of(context, run, "device memory", failed).label == "Go to “Batch size”"
    several = Failed("program", "no memory", changes={CHECKPOINTING: "off", "training.seed": 7})
    assert remedy_of(context, run, "device memory", several).label == "Apply and resume"


def test_a_change_that_makes_a_config_invalid_changes_nothing(run):
    before = run.config.read_bytes()
    with pytest.raises(UserError):
        change_config(run.config, {"training.steps": 0})
    assert run.config.read_bytes() == before
