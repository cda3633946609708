"""Losses and scores on disk: exact, of this run and of what can be compared only."""

import json
import math

import pytest

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.reward import Reward
from onetrainer.errors import UserError
from onetrainer.metrics.bands import Measurement
from onetrainer.metrics.files import LOSSES, SCORES, MeasurementFiles, grid_of
from onetrainer.metrics.guard import EvaluationResult, ScoredImage
from tests.each import each

GRID = "a grid"
THIRD = 1 / 3


def losses(step, *values):
    return {
        name: Measurement(step, {"ä.png": list(values)}, 2) for name in ("sampling", "without_ema")
    }


def evaluation(step, *scores):
    images = [
        ScoredImage(
            "eine Katze äöü", seed, f"rewards/step-{step:06d}/0-{seed}.jpg", {"clip": score}, -score
        )
        for seed, score in enumerate(scores)
    ]
    return EvaluationResult(step, tuple(images), {"diversity": THIRD * step})


KINDS = {
    "validation": (LOSSES, losses),
    "rewards": (SCORES, evaluation),
}


@pytest.fixture(params=KINDS)
def opened(request, tmp_path):
    """Returns the files of a folder with three measurements, one with images."""
    file_format, measured = KINDS[request.param]

    def open_files(until=None, grid=GRID, since=0):
        return MeasurementFiles(
            tmp_path / "files", file_format, grid=grid, until=until, since=since
        )

    made = open_files()
    for step, values in ((0, (1.0, 3.0)), (10, (THIRD, 2.0)), (20, (0.4, 0.5))):
        made.add(step, measured(step, *values))
    made.images(10).mkdir()
    (made.images(10) / "0-0.jpg").write_bytes(b"an image")
    open_files.measured = measured
    open_files.folder = tmp_path / "files"
    return open_files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_measured_comes_back_to_the_last_bit(opened):
    made = opened(until=20)
    assert list(made.by_step) == [0, 10, 20]
    assert made.by_step[10] == opened.measured(10, THIRD, 2.0)
    assert made.incomparable == 0


def test_a_score_that_is_no_number_comes_back(tmp_path):
    MeasurementFiles(tmp_path, SCORES, grid="", until=None).add(0, evaluation(0, math.nan))
    (found,) = MeasurementFiles(tmp_path, SCORES, grid="", until=0).by_step.values()
    assert math.isnan(found.images[0].rewards["clip"])


def test_what_comes_after_the_resumed_step_is_deleted_with_its_images(opened):
    (opened.folder / "step-000010.json.part").write_text("half")
    (opened.folder / "step-000025").mkdir()  # of an evaluation that was never finished
    (opened.folder / "round-000002.safetensors").write_bytes(b"another's")
    assert list(opened(until=15).by_step) == [0, 10]
    kept = ["round-000002.safetensors", "step-000000.json", "step-000010", "step-000010.json"]
    assert names(opened.folder) == kept
    assert list(opened().by_step) == []  # a run from the start keeps nothing
    assert names(opened.folder) == kept[:1]


def test_what_cannot_be_compared_does_not_count_and_stays(opened):
    made = opened(until=20, grid="another")
    assert (list(made.by_step), made.incomparable) == ([], 3)
    made = opened(until=20, since=20)
    assert (list(made.by_step), made.incomparable) == ([20], 2)
    assert len(names(opened.folder)) == 4


def test_a_step_that_is_measured_again_takes_the_place_of_the_old_one(opened):
    made, again = opened(until=20), opened.measured(10, 9.0, 8.0)
    made.add(10, again)
    assert list(made.by_step) == [0, 10, 20]
    assert opened(until=20).by_step[10] == again


@each(
    "content",
    [
        *("", "{}", "[1]"),
        json.dumps({"grid": GRID, "losses": 3, "drift": {}, "pictures": []}),
        json.dumps({"grid": GRID, "noises": 1, "losses": {"shown": {"a.png": ["low"]}},
                    "drift": {"contrast": "much"}, "pictures": []}),
    ],
)  # fmt: skip
def test_a_damaged_file_is_left_out_and_named(opened, content):
    (opened.folder / "step-000010.json").write_text(content)
    files = opened(until=20)
    assert 10 not in files.by_step and files.incomparable == 0
    assert ["step-000010.json" in text for text in files.damaged] == [True]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "rewards").write_text("a file")
    with pytest.raises(UserError, match="cannot write"):
        MeasurementFiles(tmp_path / "rewards", LOSSES, grid="", until=None).add(0, losses(0, 1.0))


def changed(section, **sections):
    return section.model_copy(
        update={
            name: getattr(section, name).model_copy(update=values)
            for name, values in sections.items()
        }
    )


def test_the_grid_is_of_prompts_noise_sampling_and_rewards():
    section = AlignProp(rewards=(Reward(),))
    prompts = ["a cat", "a dog"]
    incomparable = [
        grid_of(section, ["a cat"]),
        grid_of(changed(section, evaluation={"seed": 1}), prompts),
        grid_of(changed(section, evaluation={"seeds": 5}), prompts),
        grid_of(changed(section, rollout={"steps": 7}), prompts),
        grid_of(section.model_copy(update={"rewards": (Reward(weight=2.0),)}), prompts),
    ]
    same = changed(section, rollout={"checkpoint": False, "merge": False}, evaluation={"every": 9})
    assert grid_of(same, prompts) == grid_of(section, prompts)
    assert len({grid_of(section, prompts), *incomparable}) == 1 + len(incomparable)
