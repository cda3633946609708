"""Changed settings of a run that goes on: what is said of each, and which are refused."""

import pytest

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve, with_overrides
from onetrainer.rules.changes import changes_since
from onetrainer.schedules.learning_rate import lr_multiplier
from tests.each import each

BEFORE = {
    "method": {"layers": [{"pattern": "attn", "rank": 4}]},
    "embeddings": {"tokens": [{"token": "<a>"}, {"token": "<b>"}]},
    "output": {"folder": "/here"},
}


COSINE = {
    "training": {"steps": 2000},
    "schedule": {"kind": "cosine", "warmup_steps": 0, "min_factor": 0.05},
}


def after(*overrides):
    """What is said of a run that goes on with these settings, from step 1,040 of 2,000."""
    recorded = resolve(BEFORE | {"training": {"steps": 2000}}, source="").model_dump(mode="json")
    config = resolve(with_overrides(recorded, overrides), source="")
    return changes_since(recorded, config, step=1040)


@each(
    ("override", "text"),
    [
        (
            "optimizer.lr=2",
            "“Learning rate” (optimizer.lr) has changed (from 0.0001 to 2.0); this applies",
        ),
        ("training.steps=3000", "(from 2000 to 3000); this moves the run's end"),
        ("training.seed=1", "the order, the noise and the timesteps from step 1,040 on"),
        (
            "embeddings.tokens.1.lr=0.5",
            "“Learning rate” (embeddings.tokens.1.lr) has changed (from null",
        ),
        ("embeddings.tokens.0.start_from=x", "this has no effect, since the checkpoint has"),
        (
            "optimizer.kind=lion",
            '(from "adamw" to "lion"); this applies from step 1,040 on, with a new',
        ),
        ("method.alpha=3", "“Alpha” (method.alpha)"),
        ("output.precision=bf16", "this applies to files from step 1,040 on"),
    ],
)
def test_a_changed_setting_is_named_with_both_values_and_its_effect(override, text):
    assert text in after(override)[0]


def test_a_rate_that_rises_in_a_longer_run_is_said_with_the_setting_that_keeps_it():
    finished = resolve(BEFORE | COSINE, source="").model_dump(mode="json")
    longer = with_overrides(finished, ["training.steps=4000"])
    steps, rate = changes_since(finished, resolve(longer, source=""), step=2000)
    assert "(from 2000 to 4000)" in steps
    assert "rises from 5 % to 52 % of the full rate" in rate
    override = rate.partition("--set ")[2].strip("'")
    kept = resolve(with_overrides(longer, [override]), source="")
    assert lr_multiplier(kept.schedule, step=2000, steps=4000) == pytest.approx(0.05, rel=0.01)
    assert not any("rises" in text for text in changes_since(finished, kept, step=2000))


def test_a_rate_that_rises_in_a_run_of_more_epochs_is_said_by_what_they_were():
    epochs = {"training": {"steps": "10 epochs"}, "schedule": COSINE["schedule"]}
    finished = resolve(BEFORE | epochs, source="").model_dump(mode="json")
    for length in ("20 epochs", "140"):
        longer = resolve(with_overrides(finished, [f"training.steps={length}"]), source="")
        notes = changes_since(finished, longer, step=70, decided={"10 epochs": 70})
        assert "rises from 5 % to 52 %" in notes[1]
        assert len(changes_since(finished, longer, step=70)) == 1


def test_nothing_is_said_of_the_same_settings_another_folder_and_older_checkpoints():
    assert after() == after("output.folder=/there") == []
    assert changes_since({}, TrainConfig(), step=7) == []


@each(
    ("override", "label"),
    [
        ("method.kind=full", "Method"),
        ("method.rank=8", "Rank"),
        ("method.targets=full", "Layers"),
        ("method.unet.train=false", "Train the UNet"),
        ("method.text_encoders.te2.train=true", "Train the second text encoder"),
        ("method.layers.0.rank=2", "Rank"),
        ("embeddings.tokens.1.vectors=3", "Vectors"),
        ('embeddings.tokens=[{"token": "<a>"}]', "Tokens"),
        ("model.family=sdxl", "Model family"),
    ],
)
def test_a_setting_that_the_trained_weights_depend_on_is_refused_by_its_label(override, label):
    with pytest.raises(UserError, match=f"{override.partition('=')[0]}: “{label}” cannot change"):
        after(override)


def test_all_refused_settings_are_listed_together():
    with pytest.raises(UserError) as caught:
        after("method.rank=8", "training.steps=1000")
    assert str(caught.value).splitlines() == [
        "2 problems",
        "  method.rank: “Rank” cannot change any more (from 16 to 8). Expected the value with which"
        " the run's first 1,040 steps were made. Restore it, or start a new run.",
        "  training.steps: “Length” is 1,000 steps, but the run has made 1,040. Expected at least"
        " as many as the checkpoint has. Raise it (that of a resumed run is in its config.json), or"
        " start a new run.",
    ]


def test_a_checkpoint_whose_config_is_none_is_named():
    for recorded, what in (
        ({"training": 5}, "training: 5"),
        ({"version": "x"}, "version 'x'"),
        ({"training": {"steps": "many"}, "ema": 1}, "training.steps: .*ema: 1"),
    ):
        with pytest.raises(UserError, match=rf"^checkpoints/step-001040/state.json: .*{what}.*"):
            changes_since(recorded, TrainConfig(), step=1040)
