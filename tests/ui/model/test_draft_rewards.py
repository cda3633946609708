"""Reward training in the draft: chosen, left and come back to, with all that was set."""

import pytest

from onetrainer.config.rewards.reward import Reward

REWARDS = [
    Reward(reward="color", color="green").model_dump(mode="json"),
    Reward(reward="sharpness", train=False).model_dump(mode="json"),
]


@pytest.fixture
def draft(draft):
    draft.set_all(
        {
            "objective.kind": "alignprop",
            "objective.rewards": REWARDS,
            "objective.algorithm.kind": "drtune",
            "objective.algorithm.trained_steps": 4,
            "objective.prompts.text": "a cat\na dog",
            "objective.rollout.steps": 12,
        }
    )
    return draft


def test_another_objective_and_back_keeps_all_that_was_set(draft):
    before = draft.value("objective")
    draft.set("objective.kind", "denoising")
    assert draft.value("objective.loss.mse") == 1
    draft.set("training.steps", 7)
    draft.set("objective.kind", "alignprop")
    assert draft.value("objective") == before
    assert draft.value("training.steps") == 7


def test_rewards_come_back_after_a_method_that_has_none(draft):
    before = draft.value("objective")
    draft.set("method.kind", "vae")
    assert draft.value("objective.kind") == "reconstruction"
    assert draft.implied_change.value == "reconstruction"
    draft.set("training.steps", 7)
    draft.set("method.kind", "full")
    assert draft.value("objective") == before
    assert draft.implied_change.value == "alignprop"
    draft.undo()
    assert draft.value("objective.kind") == "reconstruction"


def test_the_objective_that_was_left_last_is_the_one_that_comes_back(draft):
    draft.set("objective.kind", "denoising")
    draft.set("method.kind", "vae")
    draft.set("training.steps", 7)
    draft.set("method.kind", "lora")
    assert draft.value("objective.kind") == "denoising"


def test_prompts_are_among_what_a_check_of_files_depends_on(draft):
    for path, value in (
        ("objective.prompts.text", "a bird"),
        ("objective.evaluation.prompts", "a bird"),
        ("objective.rewards.0.reward", "jpeg_size"),
    ):
        before = draft.file_settings
        draft.set(path, value)
        assert draft.file_settings != before
