"""Training on prompts on the meta device: a few steps from which all are extrapolated."""

from collections.abc import Sequence

from modules.assembly.method import Attached, objective_of
from modules.assembly.placement import autocast_of
from modules.assembly.prompts import slider_batches
from modules.assembly.rewards import mixer_of, reward_objective
from modules.assembly.sliders import slider_objective
from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.interfaces import PromptBatch
from modules.memory.precision import storage_dtype
from modules.meta_device.device import DEVICE, META
from modules.objectives.inputs import Objective
from modules.objectives.slider import prompts_of as slider_prompts
from modules.rewards.load import empty_rewards
from modules.rewards.mixer import Mixer
from onetrainer.config.objectives.slider import Direction, Slider
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
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_caching import encodes_text_each_step
from onetrainer.rewards.truncation import last_steps

COUNTED_TRAINED_STEPS = 2
"""Trained sampling steps to measure; each further one takes as much as the last of them adds."""
_PROMPT = "a"


def empty_mixer(config: TrainConfig) -> Mixer | None:
    """Return the config's rewards without weights; None without rewards."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return None
    dtype = storage_dtype("rewards", precision=config.hardware.precision)
    # The JPEG reward needs numbers, and takes no device memory.
    plain = [
        each.model_copy(update={"reward": "brightness"}) if each.reward == "jpeg_size" else each
        for each in section.rewards
    ]
    made = empty_rewards(plain, dtype=dtype)
    for reward in made:
        reward.extra_modules().to(META)
    return mixer_of(section, made)


def most_trained(config: TrainConfig) -> int:
    """Return the largest number of sampling steps with a gradient."""
    section = config.objective
    assert isinstance(section, AlignProp)
    steps = section.rollout.steps
    match section.algorithm:
        case AlignPropSteps(through="all"):
            return steps
        case AlignPropSteps(through="random") as own:
            least, most = own.min_fraction, own.max_fraction
            return last_steps(1, steps=steps, least=least, most=most)
        case AlignPropSteps(last_steps=count) | Draft(last_steps=count):
            return min(count, steps)
        case DRTune(trained_steps=count):
            return min(count, steps)
        case DraftLv(gradients_per_image=count):
            return count
        case ReFL():
            return 1
        case BestOfN():
            return 0


def objective_with_trained_steps(
    config: TrainConfig, attached: Attached, mixer: Mixer | None, *, trained: int
) -> Objective:
    """Return the config's objective.

    trained: Number of trained sampling steps, after an untrained one, in reward training.
    """
    section = config.objective
    if isinstance(section, Slider):
        short = _short_slider(section)
        texts = _texts(config, attached, slider_prompts(short.directions))
        return slider_objective(short, attached, texts, device=DEVICE)
    if not isinstance(section, AlignProp) or mixer is None:
        return objective_of(config, attached, device=DEVICE)
    algorithm = _with_trained_steps(section.algorithm, trained, config.training.batch_size)
    untrained_steps = 0 if trained == section.rollout.steps else 1
    steps = {DraftLv: 2, ReFL: 2, BestOfN: 2}.get(type(algorithm), untrained_steps + trained)
    rollout = section.rollout.model_copy(update={"steps": steps})
    shortened = section.model_copy(update={"algorithm": algorithm, "rollout": rollout})
    changed = config.model_copy(update={"objective": shortened})
    return reward_objective(
        changed,
        attached,
        mixer,
        device=DEVICE,
        prompts=_prompts(config, attached),
    )


def prompt_batch(config: TrainConfig, attached: Attached) -> PromptBatch:
    """Return a microbatch of prompts; encodings are in RAM like cached ones."""
    if isinstance(config.objective, Slider):
        changed = config.model_copy(update={"objective": _short_slider(config.objective)})
        return next(slider_batches(changed).at(0))
    return next(_prompts(config, attached).at(0))


def _prompts(config: TrainConfig, attached: Attached) -> PromptBatches:
    section, training = config.objective, config.training
    assert isinstance(section, AlignProp)
    return PromptBatches(
        prompts=(_PROMPT,),
        texts=_texts(config, attached, (EMPTY, _PROMPT)),
        batch_size=training.batch_size,
        accumulation=training.accumulation,
        seed=0,
        size=(section.rollout.width, section.rollout.height),
    )


def _texts(
    config: TrainConfig, attached: Attached, prompts: Sequence[str]
) -> EncodedPrompts | None:
    if encodes_text_each_step(config):
        return None
    with autocast_of(config, DEVICE):
        return EncodedPrompts.of(attached.family, prompts)


def _short_slider(section: Slider) -> Slider:
    """Return the section with one denoising step, as all are alike, and with a direction."""
    directions = section.directions or (Direction(positive=_PROMPT),)
    return section.model_copy(update={"steps": 2, "directions": directions})


def _with_trained_steps(algorithm: Algorithm, trained: int, batch_size: int) -> Algorithm:
    """Return the algorithm with a given number of trained steps in every image."""
    match algorithm:
        case AlignPropSteps() | Draft():
            return Draft(last_steps=trained)
        case DraftLv():
            return DraftLv.model_construct(kind="draft_lv", gradients_per_image=trained)
        case ReFL():
            return ReFL(earliest=0.5, latest=1.0)  # of two steps the second
        case DRTune():
            return DRTune(trained_steps=trained, early_stop=0.0)
        case BestOfN():
            candidates = max(2, min(algorithm.candidates_per_prompt, batch_size))
            return BestOfN(candidates_per_prompt=candidates, kept_per_prompt=1, prompts_per_round=1)
