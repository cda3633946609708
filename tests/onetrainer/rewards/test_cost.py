"""How many passes of the UNet a run takes, against counts by hand."""

import pytest

from onetrainer.config.train import TrainConfig
from onetrainer.rewards.cost import DISTANCE_PASSES, StepCost, cost_of
from tests.each import each

STEPS, IMAGES = 10, 6  # of sampling; in a step


def config(algorithm=None, *, keep=None, checkpoint=False, hardware=None, **more):
    objective = {
        "kind": "alignprop",
        "algorithm": algorithm or {"kind": "draft", "last_steps": 3},
        "rollout": {"steps": STEPS, "guidance": 5, "checkpoint": checkpoint} | more,
        "keep": keep or {},
        "rewards": [{"reward": "sharpness"}, {"reward": "color", "train": False}],
        "prompts": {"text": "\n".join("abcdefgh")},
        "evaluation": {"every": 4, "prompts": "x\ny", "seeds": 3},
    }
    return TrainConfig.model_validate(
        {
            "objective": objective,
            "training": {"batch_size": 2, "accumulation": 3, "steps": 10},
            "hardware": hardware or {},
        }
    )


@each(
    ("algorithm", "plain", "trained"),
    [
        ({"kind": "alignprop", "through": "all"}, 0, STEPS),
        ({"kind": "alignprop", "through": "fixed", "last_steps": 4}, 6, 4),
        # Every number from 1 to 10 as likely as any other.
        ({"kind": "alignprop"}, 4.5, 5.5),
        ({"kind": "draft", "last_steps": 3}, 7, 3),
        ({"kind": "draft_lv", "gradients_per_image": 3}, 9, 3),
        # Steps 7.5 to 10 as they are counted from 0: half of the seventh, and the last two whole.
        ({"kind": "refl"}, (0.5 * 7 + 8 + 9) / 2.5, 1),
        # Up to 4 of 10 are left out, each number of them as likely as any other.
        ({"kind": "drtune", "trained_steps": 5, "early_stop": 0.4}, 8 - 5, 5),
    ],
)
def test_sampling_has_the_passes_of_its_algorithm(algorithm, plain, trained):
    step = cost_of(config(algorithm)).step
    assert step.sampling == pytest.approx(2 * IMAGES * plain)
    assert step.trained == pytest.approx(2 * IMAGES * trained)
    assert step.by_purpose()["backward"] == pytest.approx(2 * step.trained)
    assert step.scored == IMAGES * (3 if algorithm["kind"] == "draft_lv" else 1)


def test_a_slider_denoises_half_way_and_compares_three_predictions():
    section = {"kind": "slider", "steps": STEPS, "denoising_guidance": 3}
    document = {"objective": section, "training": {"batch_size": 2, "accumulation": 3}}
    step = cost_of(TrainConfig.model_validate(document)).step
    # 1 to 9 steps with and without the prompt; then neutral, positive and negative.
    assert (step.sampling, step.anchor, step.ordinary) == (2 * IMAGES * 5, 3 * IMAGES, IMAGES)


def test_the_half_without_a_prompt_may_have_no_gradient():
    step = cost_of(config(guidance_gradient=False)).step
    assert (step.sampling, step.trained) == (IMAGES * (2 * 7 + 3), IMAGES * 3)


@each(
    ("checkpoint", "policy", "times"),
    [(False, "off", 0), (True, "off", 1), (True, "selective", 1), (False, "block", 1),
     (True, "block", 2)],
)  # fmt: skip
def test_checkpointing_computes_again_what_has_a_gradient(checkpoint, policy, times):
    hardware = {"gradient_checkpointing": policy}
    step = cost_of(config(checkpoint=checkpoint, hardware=hardware)).step
    assert step.repeated == times * step.trained


def test_the_anchor_asks_two_models_once_a_image():
    step = cost_of(config(keep={"anchor": 1.0}, checkpoint=True)).step
    assert step.by_purpose()["anchor"] == 2 * IMAGES
    assert step.with_gradient == step.repeated == step.trained + IMAGES


def test_ordinary_steps_take_their_fraction():
    plain, mixed = cost_of(config()).step, cost_of(config(keep={"denoising_fraction": 0.25})).step
    assert mixed.trained == 0.75 * plain.trained
    assert mixed.ordinary == 0.25 * IMAGES
    assert mixed.scored == 0.75 * IMAGES


def test_rounds_of_best_of_n_are_spread_over_their_steps():
    section = {
        "kind": "best_of_n",
        "candidates_per_prompt": 4,
        "prompts_per_round": 5,
        "steps_per_round": 4,
    }
    step = cost_of(config(section)).step
    # Ten steps have three rounds, of which the last is trained on for fewer steps.
    assert step.sampling == pytest.approx(3 * 4 * 5 * STEPS * 2 / 10)
    assert (step.ordinary, step.trained, step.scored) == (IMAGES, 0, 0)


def test_validation_prompts_are_evaluated_before_between_and_after():
    cost = cost_of(config())
    assert cost.evaluations == 4  # before, after 4, 8 and 10 steps
    assert cost.evaluation.sampling == 2 * 3 * STEPS * 2
    assert cost.evaluation.anchor == 2 * 3 * DISTANCE_PASSES
    assert cost.evaluation.scored_without_gradient == 2 * 3


def test_ordinary_training_has_a_pass_for_each_image():
    document = {
        "training": {"batch_size": 2, "accumulation": 3, "steps": 10},
        "sampling": {"prompts": [{"prompt": "a"}], "every": 4, "steps": 5, "guidance": 7},
    }
    cost = cost_of(TrainConfig.model_validate(document))
    assert cost.step == StepCost(ordinary=6)
    assert cost.step.by_purpose() == {"ordinary": 6, "backward": 12}
    # Before, after 4 and 8 steps, and after the last.
    assert cost.samples == StepCost(sampling=4 * 5 * 2, scored_without_gradient=4)
