"""The banner offers for each kind of failure the button that the catalog names."""

import json
from functools import partial
from types import SimpleNamespace

import pytest

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.presets.presets import change_config
from onetrainer.run.events import Failed, Warned
from onetrainer.run.failures import FAILURES
from onetrainer.run.run_folder import STATE_FILE, create_run
from ui.pages.run.banner_message import warnings_message
from ui.pages.run.remedies import Remedies, remedies_of
from ui.progress.run_state import RunState

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
    "diverged": "Set “Learning rate” to 5e-5 and resume",
    "killed": "Resume from the beginning",
    "cache": "Resume from the beginning",
}
WITHOUT_EVENT = ("download", "offline")  # whose setting is told by what the error says


@pytest.fixture
def done():
    return []


@pytest.fixture
def context(done):
    names = ("resume", "mend", "open_path", "examine")
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
    used = {"setting": "mend", "folder": "open_path"}
    for name, failure in FAILURES.items():
        remedy = remedies_of(context, run, name).main
        if failure.button == "report" or name in WITHOUT_EVENT:  # a report is always offered
            assert remedy is None, name
        else:
            remedy.do()
            assert remedy.label == LABELS.get(name, remedy.label)
            does = "resume" if failure.scaled else used.get(failure.button, failure.button)
            assert done.pop()[0] == does, name
    for name in ("", "of a later version"):
        assert remedies_of(context, run, name) == Remedies()
    for name, leads in (("killed", True), ("killed by another", False)):
        assert bool(remedies_of(context, run, name).places) == leads  # to the batch size


def test_a_failed_download_leads_back_to_the_model_that_it_is_about(context, run):
    rewards = [{"reward": "clip_score", "model": "owner/clip"}]
    document = {"model": {"path": "owner/model"}, "objective": {"rewards": rewards}}
    run.config.write_text(json.dumps(document))
    for name, label in (("owner/model", "Base model"), ("owner/clip", "Model")):
        failed = Failed("user", f"{name}: no model of this name", failure="download")
        assert remedies_of(context, run, "download", failed).main.label == f"Go to “{label}”"


def test_offline_mode_is_turned_off_or_another_model_chosen(context, run):
    change_config(run.config, {"model.path": "owner/model", "model.offline": True})
    changes = {"model.offline": False}
    failed = Failed("user", "owner/model: not there", "", "", "offline", "", changes)
    found = remedies_of(context, run, "offline", failed)
    assert found.main.label.endswith("off and resume")
    assert [place.label for place in found.places] == ["Go to “Base model”"]


def test_an_error_of_no_kind_leads_to_the_settings_that_it_names(context, run, tmp_path):
    change_config(run.config, {"data.folder": str(tmp_path / "cats")})
    remedy = "Use sampling.steps or sampling.every"
    failed = Failed("user", "neither", "", remedy, "")
    found = remedies_of(context, run, "", failed)
    assert found.main.label == "Go to “Sampling steps”"
    image = Failed("user", "x", failure="image", place=str(tmp_path / "cats" / "tom.png"))
    places = remedies_of(context, run, "image", image).places
    assert [place.label for place in places] == ["Resume from the beginning", "Go to “Images”"]


def test_the_button_names_the_step_that_the_run_resumes_from(context, run):
    checkpoint = run.checkpoints / "step-001200"
    checkpoint.mkdir(parents=True)
    label = remedies_of(context, run, "killed").main.label
    assert label == "Resume from the beginning"  # incomplete
    (checkpoint / STATE_FILE).write_text("{}")
    assert remedies_of(context, run, "killed").main.label == "Resume from step 1,200"


def test_the_folder_of_the_failure_is_opened_or_the_nearest_that_exists(context, run, done):
    place = run.samples / "gone" / "image.png"
    failed = Failed("user", "x", failure="image", place=str(place))
    remedies_of(context, run, "image", failed).main.do()
    assert done == [("open_path", run.samples)]


def test_settings_that_prevent_the_failure_are_changed_and_the_run_resumed(context, run, done):
    failed = Failed("program", "no memory", changes={CHECKPOINTING: "block"})
    remedy = remedies_of(context, run, "device memory", failed).main
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
    assert remedies_of(context, run, "device memory", failed).main.label == "Go to “Batch size”"
    several = Failed("program", "no memory", changes={CHECKPOINTING: "off", "training.seed": 7})
    assert remedies_of(context, run, "device memory", several).main.label == "Apply and resume"
    (place,) = remedies_of(context, run, "device memory", several).places
    assert place.label == "Go to “Batch size”"


def test_warnings_are_sentences_with_labels_and_lead_to_their_settings(context):
    state = RunState()
    for text in ("it is slow; fp32 (hardware.precision) is faster", "left out: a.png: damaged"):
        state.apply(Warned(text))
    state.apply(Warned("“Warm-up” (schedule.warmup_steps) is longer than the run"))
    context.act.check_images = context.act.show_page = None
    message = warnings_message(context, state)
    assert message.text.splitlines() == [
        "It is slow; fp32 (“Precision”) is faster.",
        "Left out: a.png: damaged.",
        "“Warm-up” is longer than the run.",
    ]
    labels = [place.label for place in message.places]
    assert labels == ["Check the images", "Go to “Precision”", "Go to “Warm-up”"]


def test_a_change_that_makes_a_config_invalid_changes_nothing(run):
    before = run.config.read_bytes()
    with pytest.raises(UserError):
        change_config(run.config, {"training.steps": 0})
    assert run.config.read_bytes() == before
