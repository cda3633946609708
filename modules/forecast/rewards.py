"""Reward training on a device that does not exist: a few of its steps, which tell of all."""

from modules.assembly.method import Attached
from modules.assembly.rewards import mixer_of, reward_objective
from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.interfaces import Batch, Objective, PromptBatch
from modules.memory.precision import autocast, precision_of
from modules.meta_device.device import DEVICE, META
from modules.rewards.load import empty_rewards
from modules.rewards.mixer import Mixer
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
from onetrainer.config.rewards.reward import Reward as RewardSection
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_caching import encodes_text_anew
from onetrainer.rewards.truncation import last_steps

ENOUGH_TRAINED = 2
"""Trained steps of a drawing that are counted; each further one takes what the last of them does
beyond those before it."""
_PROMPT = "a"


def empty_mixer(config: TrainConfig) -> Mixer | None:
    """The rewards of a config without their weights; None where none are trained."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return None
    dtype = precision_of("rewards", precision=config.hardware.precision).storage
    made = empty_rewards([_computable(each) for each in section.rewards], dtype=dtype)
    for reward in made:
        reward.own_modules().to(META)
    return mixer_of(section, made)


def most_trained(config: TrainConfig) -> int:
    """Through how many steps of a drawing a gradient goes at most."""
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


def objective_with(
    config: TrainConfig, attached: Attached, mixer: Mixer, *, trained: int
) -> Objective[Batch | PromptBatch]:
    """What the config minimises, with so many trained steps of a drawing, and one before them."""
    section = config.objective
    assert isinstance(section, AlignProp)
    algorithm = _shortened(section.algorithm, trained, config.training.batch_size)
    before = 0 if trained == section.rollout.steps else 1
    steps = {DraftLv: 2, ReFL: 2, BestOfN: 2}.get(type(algorithm), before + trained)
    rollout = section.rollout.model_copy(update={"steps": steps})
    short = section.model_copy(update={"algorithm": algorithm, "rollout": rollout})
    changed = config.model_copy(update={"objective": short})
    return reward_objective(
        changed,
        attached,
        lambda: mixer,
        device=DEVICE,
        prompts=_prompts(config, attached),
    )


def prompt_batch(config: TrainConfig, attached: Attached) -> PromptBatch:
    """A microbatch of prompts; as cached encodings are, theirs are in main memory."""
    return next(iter(_prompts(config, attached).at(0)))


def _prompts(config: TrainConfig, attached: Attached) -> PromptBatches:
    section, training = config.objective, config.training
    assert isinstance(section, AlignProp)
    texts = None
    if not encodes_text_anew(config):
        with autocast(DEVICE, config.hardware.precision):
            texts = EncodedPrompts.of(attached.family, (EMPTY, _PROMPT))
    return PromptBatches(
        prompts=(_PROMPT,),
        texts=texts,
        batch_size=training.batch_size,
        accumulation=training.accumulation,
        seed=0,
        size=(section.rollout.width, section.rollout.height),
    )


def _shortened(algorithm: Algorithm, trained: int, at_once: int) -> Algorithm:
    """The same with so many trained steps, in every picture."""
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
            candidates = max(2, min(algorithm.candidates_per_prompt, at_once))
            return BestOfN(candidates_per_prompt=candidates, kept_per_prompt=1, prompts_per_round=1)


def _computable(section: RewardSection) -> RewardSection:
    """A JPEG file needs numbers, and takes nothing of the device."""
    if section.reward == "jpeg_size":
        return section.model_copy(update={"reward": "brightness"})
    return section
