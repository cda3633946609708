"""Rules of reward training."""

from collections.abc import Iterator

from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.base.numbers import number_text
from onetrainer.config.methods.full import Vae
from onetrainer.config.rewards.algorithms import (
    Algorithm,
    AlignPropSteps,
    BestOfN,
    Draft,
    DraftLv,
    DRTune,
    ReFL,
)
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.reward import NETWORKS, REWARD_LABELS, Reward
from onetrainer.config.train import TrainConfig, trains_text_encoder
from onetrainer.errors import CHOOSE, Fix, Problem, warning
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec
from onetrainer.files.lines import split_lines

MIN_VALIDATION_IMAGES = 4  # the mean of fewer says too little
_WITH_TORCH = ' If it computes only with torch, turn on "Has a gradient" (has_gradient).'


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of reward training; none with other objectives."""
    section = config.objective
    if not isinstance(section, AlignProp) or isinstance(config.method, Vae):
        return
    yield from _model_problems(config, section)
    yield from _reward_list_problems(section)
    yield from _step_problems(section)
    yield from _prompt_problems(config, section)
    yield from _evaluation_problems(section)
    yield from _memory_problems(config, section)


def has_gradient(reward: Reward) -> bool:
    """Return whether a reward is differentiable."""
    is_function = reward.reward == "function"
    return reward.has_gradient if is_function else reward.reward != "jpeg_size"


def _model_problems(config: TrainConfig, section: AlignProp) -> Iterator[Problem]:
    spec = family_spec(config.model.family)
    if spec.sees_masked_image:
        base = base_of(config.model.family)
        yield Problem(
            "model.family",
            "this model paints into images, and reward training generates whole images",
            "Expected a model that generates whole images",
            "Train the model it was made from, or choose denoising as the objective.",
            choices=(Fix("objective.kind", "denoising"), Fix("model.family", base)),
        )
    rollout = section.rollout
    if min(rollout.width, rollout.height) < spec.smallest_side:
        label = FAMILY_LABELS[base_of(spec.name)]
        yield warning(
            "objective.rollout.width",
            f"{rollout.width} × {rollout.height} px is small for {label}",
            f"It was trained at {spec.side} px and works poorly below that",
            f"Set width and height to {spec.side}, if the memory allows.",
        )


def _reward_list_problems(section: AlignProp) -> Iterator[Problem]:
    rewards = section.rewards
    if not rewards:
        yield Problem(
            "objective.rewards",
            "no reward is set, so images cannot be scored",
            "Expected at least one reward to train toward",
            "Add one, and a second one that is not trained.",
        )
        return
    if not any(reward.train for reward in rewards):
        yield Problem(
            "objective.rewards.0.train",
            "no reward is trained",
            "Expected at least one to train toward",
            "Turn it on for one of them.",
            fix=Fix("objective.rewards.0.train", value=True),
        )
    elif all(reward.train for reward in rewards) and section.evaluation.guard != "off":
        yield warning(
            "objective.rewards",
            "every reward is trained, so only diversity shows whether they still mean anything",
            "Expected at least one reward that is not trained",
            'Add one of another type and turn off "Train toward it" (train) for it.',
        )
    for index, reward in enumerate(rewards):
        yield from _reward_problems(f"objective.rewards.{index}", reward, section)


def _reward_problems(path: str, reward: Reward, section: AlignProp) -> Iterator[Problem]:
    yield from _missing_files(path, reward)
    if reward.train and reward.weight == 0:
        yield Problem(
            f"{path}.weight",
            "a trained reward with weight 0 has no effect",
            "Expected a weight other than 0, or a reward that is only measured",
            'Set the weight to 1, or turn off "Train toward it" (train).',
            choices=(Fix(f"{path}.weight", 1.0), Fix(f"{path}.train", value=False)),
        )
    if reward.train and not has_gradient(reward) and not isinstance(section.algorithm, BestOfN):
        is_function = reward.reward == "function"
        enable = (Fix(f"{path}.has_gradient", value=True),) if is_function else ()
        yield Problem(
            f"{path}.reward",
            f"{REWARD_LABELS[reward.reward]} has no gradient",
            'Expected the algorithm "best_of_n" (best of n), or a reward that is only measured',
            'Choose best of n, or turn off "Train toward it" (train).'
            + (_WITH_TORCH if is_function else ""),
            choices=(
                *enable,
                Fix("objective.algorithm.kind", "best_of_n"),
                Fix(f"{path}.train", value=False),
            ),
        )


def _missing_files(path: str, reward: Reward) -> Iterator[Problem]:
    label = REWARD_LABELS[reward.reward]
    for name, noun, is_missing in (
        ("model", "its folder, file or name on the Hub", reward.reward in NETWORKS),
        ("head", "the file with the score's own weights", reward.reward == "aesthetic"),
        ("folder", "the reference images", reward.reward == "reference"),
    ):
        if is_missing and not getattr(reward, name):
            what = f"no {name} is chosen for {label}"
            yield Problem(f"{path}.{name}", what, f"Expected {noun}", "Choose it.")
    if reward.reward == "function" and ":" not in reward.function:
        named = f'"{reward.function}" does not name a function'
        yield Problem(
            f"{path}.function",
            named if reward.function else "no function is set",
            'Expected "file.py:function" or "module:function"',
            "Enter the location of your function.",
        )


def _step_problems(section: AlignProp) -> Iterator[Problem]:
    steps = section.rollout.steps
    match section.algorithm:
        case AlignPropSteps(through="fixed", last_steps=last) | Draft(last_steps=last):
            yield from _more_than_steps("last_steps", last, steps)
        case AlignPropSteps(through="random") as chosen if (
            chosen.min_fraction > chosen.max_fraction
        ):
            yield Problem(
                "objective.algorithm.min_fraction",
                f"the min fraction {number_text(chosen.min_fraction)} is above the max fraction"
                f" {number_text(chosen.max_fraction)}",
                "Expected the minimum not above the maximum",
                "Lower the minimum or raise the maximum.",
            )
        case AlignPropSteps(through="all"):
            yield warning(
                "objective.algorithm.through",
                "with the gradient through all steps, models soon collapse to a single image",
                "AlignProp gives the best results with a random number of steps",
                'Choose "random".',
                to="random",
            )
        case ReFL() as chosen if chosen.earliest >= chosen.latest:
            yield Problem(
                "objective.algorithm.earliest",
                f"the earliest step {number_text(chosen.earliest)} is not before the latest"
                f" {number_text(chosen.latest)}",
                "Expected the earliest step before the latest",
                "Lower the earliest step or raise the latest.",
            )
        case DRTune(trained_steps=trained):
            yield from _more_than_steps("trained_steps", trained, steps)
        case BestOfN() as chosen if chosen.kept_per_prompt > chosen.candidates_per_prompt:
            yield Problem(
                "objective.algorithm.kept_per_prompt",
                f"cannot keep {chosen.kept_per_prompt} of {chosen.candidates_per_prompt} images",
                "Expected fewer than the candidates",
                "Lower it, or generate more candidates.",
                fix=Fix("objective.algorithm.kept_per_prompt", 1),
            )


def _more_than_steps(name: str, count: int, steps: int) -> Iterator[Problem]:
    if count > steps:
        yield Problem(
            f"objective.algorithm.{name}",
            f"{count} steps are more than the sampling steps (objective.rollout.steps: {steps})",
            f"Expected at most {steps}",
            "Lower it, or raise the sampling steps.",
            fix=Fix(f"objective.algorithm.{name}", steps),
        )


def _prompt_problems(config: TrainConfig, section: AlignProp) -> Iterator[Problem]:
    prompts = section.prompts
    if prompts.source == "list" and not prompts.text.strip():
        yield Problem(
            "objective.prompts.text",
            "there are no prompts",
            "Expected one prompt per line",
            "Write some, or choose another source of prompts.",
        )
    if prompts.source == "file" and not prompts.file:
        yield Problem(
            "objective.prompts.file",
            "no file with prompts is chosen",
            "Expected a text file with one prompt per line",
            "Choose one, or write the prompts as a list.",
        )
    uses = (
        ("prompts come from captions", prompts.source == "captions"),
        ("some steps are denoising steps", section.keep.denoising_fraction > 0),
        ("validation is on", config.validation.use),
    )
    reason = next((reason for reason, applies in uses if applies), "")
    if reason and not any(concept.role == "train" for concept in concepts_of(config)):
        yield Problem(
            "data.folder",
            f"no image folder is chosen, and {reason}",
            "Expected a folder of images with captions",
            CHOOSE,
        )


def _evaluation_problems(section: AlignProp) -> Iterator[Problem]:
    evaluation = section.evaluation
    if isinstance(section.algorithm, BestOfN) and section.keep.anchor:
        yield warning(
            "objective.keep.anchor",
            "best of n trains on images and has no anchor to the base model",
            "Denoising steps on your own images keep it close (objective.keep.denoising_fraction)",
            "Set the anchor to 0.",
            to=0.0,
        )
    lines = [line for line in split_lines(evaluation.prompts) if line.strip()]
    count = min(len(lines), evaluation.max_prompts) * evaluation.seeds
    if lines and count < MIN_VALIDATION_IMAGES:
        yield warning(
            "objective.evaluation.seeds",
            f"only {count} validation images would be generated, which say little about others",
            f"Expected at least {MIN_VALIDATION_IMAGES}; about twenty are better",
            "Write more validation prompts, or generate more images per prompt.",
        )


def _memory_problems(config: TrainConfig, section: AlignProp) -> Iterator[Problem]:
    if config.optimizer.is_fused:
        yield Problem(
            "optimizer.fused_backward",
            "a fused backward pass changes weights that other sampling steps still need for their"
            " gradient",
            "Expected it off for reward training",
            "Turn it off.",
            fix=Fix("optimizer.fused_backward", value=False),
        )
    trains_text = config.embeddings.tokens or trains_text_encoder(config)
    if config.data.cache_text and trains_text:
        yield warning(
            "data.cache_text",
            "prompts cannot be cached while a text encoder or an embedding is trained",
            "They are encoded in every step",
            "Turn it off; this changes nothing else.",
            to=False,
        )
    if not section.rollout.checkpoint and _trains_several_steps(section.algorithm):
        yield warning(
            "objective.rollout.checkpoint",
            "every trained sampling step is stored for the gradient, which takes several GB per"
            " step",
            "Checkpointing needs nearly the same memory for any number of steps",
            "Turn it on, unless the forecast says that it fits.",
            to=True,
        )


def _trains_several_steps(algorithm: Algorithm) -> bool:
    """Return whether the gradient flows through more than one sampling step."""
    match algorithm:
        case BestOfN() | ReFL():
            return False
        case (
            AlignPropSteps(through="fixed", last_steps=count)
            | Draft(last_steps=count)
            | DRTune(trained_steps=count)
        ):
            return count > 1
        case AlignPropSteps() | DraftLv():
            return True
