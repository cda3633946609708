"""The forecast of reward training: passes against those that are made, memory against all steps."""

import pytest
import torch

from modules.assembly.method import attach
from modules.assembly.placement import manage
from modules.assembly.rewards import mixer_of, reward_objective
from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.diffusion.draws import Draws
from modules.evaluation.prompts import DISTANCE_LEVELS
from modules.forecast import phases as plan_phases
from modules.forecast import rewards as plan_rewards
from modules.forecast.fixes import apply_changes, candidates
from modules.forecast.forecast import Planner
from modules.forecast.step_time import forecast_time
from modules.objectives.trajectories import trajectories_of
from modules.rewards.load import make_rewards
from onetrainer.config.train import TrainConfig
from onetrainer.presets.step_work import DeviceSpeed
from onetrainer.rewards.cost import DISTANCE_PASSES, cost_of
from tests import tiny
from tests.batches import loss_of
from tests.close import near
from tests.each import each
from tests.forecasts import ON_GPU, forecast

STEPS, IMAGES = 4, 2
# A thousand operations a second, and nothing else takes time.
SLOW = DeviceSpeed({}, 1e18, 1e-3)


def config(algorithm, *, base="", rewards=("sharpness",), keep=None, hardware=None, **rollout):
    sampling = {"steps": STEPS, "width": 64, "height": 64, "guidance": 3}
    return TrainConfig.model_validate(
        {
            "model": {"path": base},
            "method": {"kind": "lora", "rank": 2},
            "training": {"batch_size": IMAGES},
            "hardware": {"precision": "fp32", "gradient_checkpointing": "off"} | (hardware or {}),
            "objective": {
                "kind": "alignprop",
                "algorithm": algorithm,
                "rewards": [{"reward": each} for each in rewards],
                "prompts": {"text": "a cat\na dog"},
                "rollout": sampling | rollout,
                "keep": keep or {},
            },
        }
    )


class Passes:
    """Rows that a layer of the UNet computes."""

    def __init__(self, layer):
        self.plain = self.recorded = 0
        layer.register_forward_pre_hook(self._count)

    def _count(self, _, given):
        if torch.is_grad_enabled():
            self.recorded += len(given[0])
        else:
            self.plain += len(given[0])


def counted(asked, *, layer):
    """A step of the real objective, forward and backward."""
    family = tiny.family()
    attached = attach(asked, family)
    section = asked.objective
    rewards = make_rewards(
        section.rewards, device=tiny.CPU, dtype=torch.float32, offline=True, report=print
    )
    mixer = mixer_of(section, rewards)
    texts = EncodedPrompts.of(family, (EMPTY, "a cat", "a dog"))
    prompts = PromptBatches(("a cat", "a dog"), texts, IMAGES, 1, 0, (64, 64))
    objective = reward_objective(asked, attached, mixer, device=tiny.CPU, prompts=prompts)
    passes = Passes(layer(family.unet))
    layers = manage(asked, family, device=tiny.CPU)
    for batch in prompts.at(0):
        loss_of(objective, batch, seed=0, step=0).value.backward()
    layers.undo()
    return passes


CASES = {
    "draft": ({"kind": "draft", "last_steps": 2}, {}),
    "anchor": ({"kind": "draft", "last_steps": 1}, {"keep": {"anchor": 1.0}}),
    "draft_lv": ({"kind": "draft_lv", "gradients_per_image": 3}, {"checkpoint": False}),
    "refl": ({"kind": "refl", "earliest": 0.5, "latest": 0.75}, {}),
    "drtune": ({"kind": "drtune", "trained_steps": 2, "early_stop": 0}, {}),
    "one half": ({"kind": "draft", "last_steps": 2}, {"guidance_gradient": False}),
    "no guidance": ({"kind": "alignprop", "through": "all"}, {"guidance": 1}),
    "blocks": (
        {"kind": "draft", "last_steps": 1},
        {"hardware": {"gradient_checkpointing": "block"}},
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("draft", "refl", "blocks") else pytest.mark.long)
        for name in CASES
    ],
)
def test_passes_are_those_that_a_step_makes(name):
    algorithm, settings = CASES[name]
    asked = config(algorithm, **settings)
    is_within = name == "blocks"
    passes = counted(
        asked,
        layer=lambda unet: unet.mid_block.resnets[0].conv1 if is_within else unet.conv_in,
    )
    step = cost_of(asked).step
    assert 2 * len(DISTANCE_LEVELS) == DISTANCE_PASSES  # of two models
    assert passes.plain == step.sampling + step.anchor
    assert passes.recorded == step.with_gradient + step.repeated


@each(
    "algorithm",
    [
        {"kind": "alignprop", "min_fraction": 0.2, "max_fraction": 0.9},
        {"kind": "refl", "earliest": 0.3},
        {"kind": "drtune", "trained_steps": 3},
    ],
)
def test_random_lengths_count_with_their_mean(algorithm):
    asked = config(algorithm, steps=10, guidance=1)
    draws = Draws(0, 0, tuple(range(1000)))
    trajectories = trajectories_of(asked.objective.algorithm, steps=10, draws=draws)
    step = cost_of(asked).step
    trained = sum(len(one.trained_steps) for one in trajectories) / len(trajectories)
    calls = sum(one.last + 1 for one in trajectories) / len(trajectories)
    # Spreads of about 3 steps over 1000 images: a standard error of 0.1.
    assert step.trained / IMAGES == pytest.approx(trained, abs=0.3)
    assert (step.trained + step.sampling) / IMAGES == pytest.approx(calls, abs=0.3)


def training(asked):
    return forecast(asked).phases["training"]


def test_memory_of_many_steps_follows_from_that_of_two(base, monkeypatch):
    asked = config({"kind": "draft", "last_steps": 4}, base=base, checkpoint=False, steps=6)
    parts = training(asked)
    for module in (plan_phases, plan_rewards):
        monkeypatch.setattr(module, "COUNTED_TRAINED_STEPS", 4)
    whole = training(asked)
    assert sum(parts.values()) == pytest.approx(sum(whole.values()), rel=0.01)


def test_checkpointing_each_step_makes_memory_nearly_the_same_for_any_number(base):
    def activations(last, **settings):
        algorithm = {"kind": "draft", "last_steps": last}
        return training(config(algorithm, base=base, steps=10, **settings))["activations"]

    many = activations(10)
    assert many < 1.2 * activations(1)
    assert activations(10, checkpoint=False) > 2.5 * many


@pytest.mark.long  # each member of two axes; above, three of them are counted pass by pass
def test_every_algorithm_is_forecast(base):
    with Planner(ON_GPU) as plans:
        for kind in ("draft_lv", "drtune", "best_of_n"):
            asked = config({"kind": kind}, base=base, rewards=("jpeg_size", "color"))
            parts = plans.forecast(asked).phases["training"]
            assert parts["activations"] > 0
            assert parts["vae"] > 0


def test_a_slider_is_forecast_with_checkpointing_and_a_trained_text_encoder(base):
    asked = {
        "model": {"path": base},
        "method": {"kind": "lora", "rank": 2, "text_encoders": {"te1": {"train": True}}},
        "objective": {"kind": "slider", "width": 64, "height": 64},
        "hardware": {"precision": "fp32", "gradient_checkpointing": "selective"},
    }
    assert training(TrainConfig.model_validate(asked))["activations"] > 0


def test_ordinary_steps_leave_no_second_statistics(base):
    parts = training(config({"kind": "refl"}, base=base, keep={"denoising_fraction": 0.5}))
    # Two numbers for each, rounded up like the adapters.
    assert parts["optimizer"] <= 2 * parts["adapters"]


def test_networks_of_rewards_count_as_published_where_they_are_not_there(base):
    parts = training(config({"kind": "refl"}, base=base, rewards=("aesthetic",)))
    # CLIP ViT-L/14's image half has 303 966 208 numbers, and its projection 786 432.
    assert parts["rewards"] == pytest.approx(4 * 304_752_640, rel=0.02)


def time_of(plans, asked, speed=SLOW):
    with plans.stage(asked) as stage:
        return forecast_time(stage, speed, "here")


def test_time_is_that_of_all_passes(base):
    one = config({"kind": "draft", "last_steps": 1}, base=base)
    more = one.model_copy(update={"training": one.training.model_copy(update={"accumulation": 3})})
    with Planner(ON_GPU) as plans:
        short, long = (time_of(plans, each) for each in (one, more))
        unknown = time_of(plans, one, None)
    assert long["seconds"] == near(3 * short["seconds"])
    assert short["run_seconds"] > short["seconds"] * one.training.steps  # with evaluations
    assert short["unet_calls"] == sum(short["parts"].values())
    assert short["message"].endswith("in all (here)")
    assert unknown == {"unet_calls": short["unet_calls"], "parts": short["parts"]}


def test_time_of_checkpointing_is_that_of_another_forward_pass(base):
    def seconds(**settings):
        asked = config({"kind": "draft", "last_steps": STEPS}, base=base, **settings)
        with Planner(ON_GPU) as plans:
            return time_of(plans, asked)["seconds"]

    # Forward, again, and backward, which has about as many operators as forward.
    assert seconds() / seconds(checkpoint=False) == pytest.approx(3 / 2, rel=0.1)


def test_what_reward_training_keeps_can_be_lowered(base):
    asked = config({"kind": "draft"}, base=base, checkpoint=False, width=512, height=768)
    paths = [
        path.removeprefix("objective.rollout.")
        for change in candidates(asked, on_card=True)
        for path in change.changes
        if path.startswith("objective")
    ]
    assert paths == ["merge", "checkpoint", "width", "height"]
    smaller = {f"objective.rollout.{side}" for side in ("width", "height")}
    (change,) = [one for one in candidates(asked, on_card=True) if one.changes.keys() == smaller]
    sampling = apply_changes(asked, change.changes).objective.rollout
    assert (sampling.width, sampling.height) == (384, 576)
