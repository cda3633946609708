"""Evaluations on disk: exact, of this run and of what can be compared only."""

import json
import math

import pytest

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.reward import Reward
from onetrainer.errors import UserError
from onetrainer.metrics.evaluation_files import EvaluationFiles, grid_of
from onetrainer.metrics.reward_guard import EvaluationResult, ScoredImage

GRID = "a grid"
THIRD = 1 / 3


def files(folder, grid=GRID, until=None):
    return EvaluationFiles(folder, grid=grid, until=until)


def evaluation(step, *scores):
    images = [
        ScoredImage(
            "eine Katze äöü", seed, f"rewards/step-{step:06d}/0-{seed}.jpg", {"clip": score}, -score
        )
        for seed, score in enumerate(scores)
    ]
    return EvaluationResult(step, tuple(images), {"diversity": THIRD * step})


EVALUATIONS = [evaluation(0, 1.0, 3.0), evaluation(10, THIRD, 2.0), evaluation(20, 0.4, math.nan)]


@pytest.fixture
def folder(tmp_path):
    """Three evaluations with an image each."""
    made = files(tmp_path / "rewards")
    for one in EVALUATIONS:
        made.add(one)
        made.images(one.step).mkdir()
        (made.images(one.step) / "0-0.jpg").write_bytes(b"a picture")
    return tmp_path / "rewards"


def steps(made):
    return [one.step for one in made.history()]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_evaluations_come_back_to_the_last_bit(folder):
    made = files(folder, until=20)
    assert made.history()[:2] == EVALUATIONS[:2]
    assert math.isnan(made.history()[2].images[1].rewards["clip"])
    assert made.incomparable == 0


def test_the_base_is_the_first_evaluation(folder):
    assert files(folder, until=20).base() == {"clip": (2.0, pytest.approx(2**0.5))}
    assert files(folder).base() is None


def test_what_comes_after_the_resumed_step_is_deleted_with_its_images(folder):
    (folder / "step-000010.json.part").write_text("half")
    (folder / "step-000025").mkdir()  # of an evaluation that was never finished
    (folder / "round-000002.safetensors").write_bytes(b"another's")
    made = files(folder, until=15)
    assert steps(made) == [0, 10]
    assert made.has(10)
    assert not made.has(20)
    assert names(folder) == [
        "round-000002.safetensors",
        "step-000000",
        "step-000000.json",
        "step-000010",
        "step-000010.json",
    ]


def test_a_run_from_the_start_keeps_nothing(folder):
    assert steps(files(folder)) == []
    assert names(folder) == []


def test_evaluations_of_another_grid_do_not_count(folder):
    made = files(folder, grid="another", until=20)
    assert (steps(made), made.incomparable, made.base()) == ([], 3, None)


def test_a_step_that_is_evaluated_again_takes_the_place_of_the_old_one(folder):
    made = files(folder, until=20)
    made.add(evaluation(10, 9.0))
    assert steps(made) == [0, 10, 20]
    assert files(folder, until=20).history()[1] == evaluation(10, 9.0)


EMPTY = json.dumps({"step": 10, "grid": GRID, "drift": {}, "pictures": []})
WORD = json.dumps({"step": 10, "grid": GRID, "drift": {"contrast": "much"}, "pictures": []})


@pytest.mark.parametrize("content", ["", "{}", "[1]", EMPTY, WORD])
def test_a_damaged_file_is_told_by_its_name(folder, content):
    (folder / "step-000010.json").write_text(content)
    with pytest.raises(UserError, match=r"step-000010\.json"):
        files(folder, until=20)


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "rewards").write_text("a file")
    with pytest.raises(UserError, match="cannot write"):
        files(tmp_path / "rewards").add(EVALUATIONS[0])


def changed(section, **sections):
    return section.model_copy(
        update={
            name: getattr(section, name).model_copy(update=values)
            for name, values in sections.items()
        }
    )


def test_the_grid_is_of_prompts_noise_drawing_and_rewards():
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
