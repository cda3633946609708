"""What is wrong between the settings of reward training."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Vae
from onetrainer.config.rewards.algorithms import (
    Algorithm,
    AlignPropSteps,
    BestOfN,
    Draft,
    DRTune,
    ReFL,
)
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.reward import NETWORKS, REWARD_WORDS, Reward
from onetrainer.config.run.model import base_of
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

SMALL_FOR_SDXL, SDXL_SIDE = 768, 1024  # px
LEAST_WATCHED = 4  # pictures; of fewer, nothing can be told of the mean of others


@runtime_checkable
class _OffersBackward(Protocol):
    @property
    def fused_backward(self) -> bool: ...


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of reward training; none with other objectives."""
    section = config.objective
    if not isinstance(section, AlignProp) or isinstance(config.method, Vae):
        return []
    return [
        *_of_model(config),
        *_of_rewards(section),
        *_of_steps(section),
        *_of_prompts(config, section),
        *_of_watching(section),
        *_of_memory(config, section),
    ]


def has_gradient(reward: Reward) -> bool:
    """Whether a reward's gradient can be followed."""
    match reward.reward:
        case "jpeg_size":
            return False
        case "function":
            return reward.has_gradient
        case _:
            return True


def _of_model(config: TrainConfig) -> Iterator[Problem]:
    if config.model.family.endswith("inpainting"):
        base = base_of(config.model.family)
        yield Problem(
            "model.family",
            "a model for inpainting paints into pictures, and rewards are for pictures drawn from"
            " nothing",
            "Expected a model that draws whole pictures",
            "Train the model that it was made from; or choose denoising as the objective.",
            choices=(Fix("objective.kind", "denoising"), Fix("model.family", base)),
        )
    rollout = config.objective.rollout if isinstance(config.objective, AlignProp) else None
    if (
        rollout is not None
        and base_of(config.model.family) == "sdxl"
        and min(rollout.width, rollout.height) < SMALL_FOR_SDXL
    ):
        yield Problem(
            "objective.rollout.width",
            f"{rollout.width} × {rollout.height} px is small for SDXL",
            f"It was made for {SDXL_SIDE} px and draws poorly at less",
            f"Set width and height to {SDXL_SIDE}, if the memory allows.",
            "warning",
        )


def _of_rewards(section: AlignProp) -> Iterator[Problem]:
    rewards = section.rewards
    if not rewards:
        yield Problem(
            "objective.rewards",
            "no reward is chosen, so that nothing tells a better picture from a worse one",
            "Expected at least one reward to train toward",
            "Add one; and one that is only watched.",
        )
        return
    if not any(reward.train for reward in rewards):
        yield Problem(
            "objective.rewards.0.train",
            "all rewards are only watched, so that there is nothing to learn",
            "Expected at least one to train toward",
            "Turn it on for one of them.",
            fix=Fix("objective.rewards.0.train", value=True),
        )
    elif all(reward.train for reward in rewards) and section.evaluation.guard != "off":
        yield Problem(
            "objective.rewards",
            "every reward is trained, so that diversity alone tells whether they still mean"
            " anything",
            "Expected one that is only watched beside them",
            'Add one and turn off "Train toward it" for it: one of another kind tells most.',
            "warning",
        )
    for place, reward in enumerate(rewards):
        yield from _of_reward(f"objective.rewards.{place}", reward, section)


def _of_reward(path: str, reward: Reward, section: AlignProp) -> Iterator[Problem]:
    yield from _missing_files(path, reward)
    if reward.train and reward.weight == 0:
        yield Problem(
            f"{path}.weight",
            "a trained reward of weight 0 counts nothing",
            "Expected another weight, or that it is only watched",
            'Set the weight to 1, or turn off "Train toward it".',
            choices=(Fix(f"{path}.weight", 1.0), Fix(f"{path}.train", value=False)),
        )
    if reward.train and not has_gradient(reward) and not isinstance(section.algorithm, BestOfN):
        is_own = reward.reward == "function"
        own = (Fix(f"{path}.has_gradient", value=True),) if is_own else ()
        yield Problem(
            f"{path}.reward",
            f"{REWARD_WORDS[reward.reward]} has no gradient that could be followed to the weights",
            'Expected the algorithm "best_of_n" (best of n) with it, or that it is only watched',
            "Choose best of n, or only watch it."
            + (" If it computes with torch all the way, say that it has one." if is_own else ""),
            choices=(
                *own,
                Fix("objective.algorithm.kind", "best_of_n"),
                Fix(f"{path}.train", value=False),
            ),
        )


def _missing_files(path: str, reward: Reward) -> Iterator[Problem]:
    words = REWARD_WORDS[reward.reward]
    if reward.reward in NETWORKS and not reward.model:
        yield _unchosen(f"{path}.model", words, "a network", "its folder, file or name on the hub")
    if reward.reward == "aesthetic" and not reward.head:
        yield _unchosen(f"{path}.head", words, "a head", "the file with the score's own weights")
    if reward.reward == "reference" and not reward.folder:
        yield _unchosen(f"{path}.folder", words, "a folder", "the pictures to be like")
    if reward.reward == "function" and ":" not in reward.function:
        yield Problem(
            f"{path}.function",
            f'"{reward.function}" names no function' if reward.function else "no function is named",
            'Expected "file.py:function" or "module:function"',
            "Write where your function is.",
        )


def _unchosen(path: str, words: str, noun: str, what: str) -> Problem:
    return Problem(path, f"no {noun.removeprefix('a ')} is chosen for {words}", f"Expected {what}",
                   "Choose it.")  # fmt: skip


def _of_steps(section: AlignProp) -> Iterator[Problem]:
    steps = section.rollout.steps
    match section.algorithm:
        case AlignPropSteps(through="fixed", last_steps=last) | Draft(last_steps=last):
            yield from _more_than_steps("last_steps", last, steps)
        case AlignPropSteps(through="random") as own if own.min_fraction > own.max_fraction:
            yield Problem(
                "objective.algorithm.min_fraction",
                f"the lowest fraction {own.min_fraction:g} is above the highest {own.max_fraction:g}",
                "Expected the least not above the greatest",
                "Lower the one or raise the other.",
            )
        case AlignPropSteps(through="all"):
            yield Problem(
                "objective.algorithm.through",
                "with the gradient through all steps, always, models soon draw one picture for"
                " everything",
                "The paper found a random share of the steps best",
                'Choose "random".',
                "warning",
                Fix("objective.algorithm.through", "random"),
            )
        case ReFL() as own if own.earliest >= own.latest:
            yield Problem(
                "objective.algorithm.earliest",
                f"no step is left between {own.earliest:g} and {own.latest:g} of the steps",
                "Expected the first below the second",
                "Lower the one or raise the other.",
            )
        case DRTune(trained_steps=trained):
            yield from _more_than_steps("trained_steps", trained, steps)
        case BestOfN() as own if own.kept_per_prompt > own.candidates_per_prompt:
            yield Problem(
                "objective.algorithm.kept_per_prompt",
                f"{own.kept_per_prompt} of {own.candidates_per_prompt} candidates cannot be kept",
                "Expected at most as many as are drawn; fewer, or there is no choice",
                "Lower it, or draw more candidates.",
                fix=Fix("objective.algorithm.kept_per_prompt", 1),
            )
        case _:
            return


def _more_than_steps(name: str, count: int, steps: int) -> Iterator[Problem]:
    if count > steps:
        yield Problem(
            f"objective.algorithm.{name}",
            f"{count} steps are more than the pictures are drawn in"
            f" (objective.rollout.steps: {steps})",
            f"Expected at most {steps}",
            "Lower it, or draw in more steps.",
            fix=Fix(f"objective.algorithm.{name}", steps),
        )


def _of_prompts(config: TrainConfig, section: AlignProp) -> Iterator[Problem]:
    prompts = section.prompts
    if prompts.source == "list" and not prompts.text.strip():
        yield Problem(
            "objective.prompts.text",
            "there is no prompt",
            "Expected what the pictures of training show, a prompt a line",
            "Write some, or choose another source of prompts.",
        )
    if prompts.source == "file" and not prompts.file:
        yield Problem(
            "objective.prompts.file",
            "no file with prompts is chosen",
            "Expected a text file with a prompt a line",
            "Choose one, or write the prompts as a list.",
        )
    uses = {
        "prompts come from captions": prompts.source == "captions",
        "some of the steps are ordinary ones": section.keep.denoising_share > 0,
        "held-out pictures are measured": config.validation.use,
    }
    why = [words for words, is_so in uses.items() if is_so]
    if why and not any(concept.role == "train" for concept in concepts_of(config)):
        yield Problem(
            "data.folder",
            f"no folder of pictures is chosen, and {why[0]}",
            "Expected a folder of pictures with captions",
            "Choose one.",
        )


def _of_watching(section: AlignProp) -> Iterator[Problem]:
    watched = section.evaluation
    if isinstance(section.algorithm, BestOfN) and section.keep.anchor:
        yield Problem(
            "objective.keep.anchor",
            "best of n learns from pictures, and has no anchor to the base model",
            "Ordinary steps on your own pictures hold it (objective.keep.denoising_share)",
            "Set the anchor to 0.",
            "warning",
            Fix("objective.keep.anchor", 0.0),
        )
    lines = [line for line in watched.prompts.splitlines() if line.strip()]
    count = min(len(lines), watched.max_prompts) * watched.seeds
    if lines and count < LEAST_WATCHED:
        yield Problem(
            "objective.evaluation.seeds",
            f"only {count} held-out pictures would be drawn, which say little about all others",
            f"Expected {LEAST_WATCHED} at least; some twenty are better",
            "Write more held-out prompts, or draw more pictures of each.",
            "warning",
        )


def _of_memory(config: TrainConfig, section: AlignProp) -> Iterator[Problem]:
    optimizer = config.optimizer
    if isinstance(optimizer, _OffersBackward) and optimizer.fused_backward:
        yield Problem(
            "optimizer.fused_backward",
            "weights cannot move in the backward pass while a gradient goes through several steps"
            " of one drawing: each of them needs the weights that it was drawn with",
            "Expected it off for reward training",
            "Turn it off.",
            fix=Fix("optimizer.fused_backward", value=False),
        )
    if config.data.cache_text and _text_trains(config):
        yield Problem(
            "data.cache_text",
            "prompts cannot be encoded once, since what encodes them is trained",
            "They are encoded anew in every step",
            "Turn it off, so that the setting says what happens.",
            "warning",
            Fix("data.cache_text", value=False),
        )
    if not section.rollout.checkpoint and _trains_several_steps(section.algorithm):
        yield Problem(
            "objective.rollout.checkpoint",
            "every trained step of every picture is kept whole for the gradient, which takes some"
            " gigabytes a step",
            "Checkpointing makes memory nearly the same for any number of steps",
            "Turn it on, unless the forecast says that it fits.",
            "warning",
            Fix("objective.rollout.checkpoint", value=True),
        )


def _trains_several_steps(algorithm: Algorithm) -> bool:
    """Whether a gradient goes through more than one step of a picture's drawing."""
    match algorithm:
        case BestOfN() | ReFL():
            return False
        case AlignPropSteps(through="fixed", last_steps=count) | Draft(last_steps=count):
            return count > 1
        case DRTune(trained_steps=count):
            return count > 1
        case _:
            return True


def _text_trains(config: TrainConfig) -> bool:
    if config.embeddings.tokens:
        return True
    match config.method:
        case EmbeddingOnly() | Vae():
            return bool(config.embeddings.tokens)
        case method:
            is_xl = base_of(config.model.family) == "sdxl"
            return method.text_encoder.train or (is_xl and method.text_encoder_2.train)
