"""Prompts of runs without images: encoded, and batched step by step."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from modules.assembly.dataset import progress_report
from modules.assembly.run_context import Run
from modules.data.batches import Batches
from modules.data.cache import CachingStopped
from modules.data.loader import Reading
from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.evaluation.prompts import ValidationPrompts
from modules.interfaces import Batch, Family, PromptBatch
from modules.objectives import slider
from modules.trainer import StepAbandoned
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_caching import encodes_text_each_step
from onetrainer.rewards.prompts import prompts_of


@dataclass(frozen=True)
class Prompts:
    """Training and validation prompts.

    Attributes:
        batches: Of prompts, or of the labels of a slider's directions.
        texts: Encoded prompts; None if they are encoded in every step.
        captions: What is trained, in words.
        validation: None for sliders.
        noun: What a batch is made of, for people.
    """

    batches: PromptBatches
    texts: EncodedPrompts | None
    captions: tuple[str, ...]
    validation: ValidationPrompts | None
    noun: str = "prompt"

    @property
    def digest(self) -> str:
        """Digest of everything that is trained."""
        return hashlib.sha256("\n".join(self.batches.prompts).encode()).hexdigest()


@dataclass(frozen=True)
class MixedBatches:
    """Steps of reward training with evenly spread denoising steps on images among them.

    Attributes:
        denoising_fraction: In [0, 1).
        is_leaving: Called before each microbatch of prompts, which may take minutes; if it returns
            True, StepAbandoned is raised.
    """

    prompts: PromptBatches
    images: Batches | None
    denoising_fraction: float
    is_leaving: Callable[[], bool]

    def at(self, step: int) -> Iterable[Batch | PromptBatch]:
        """Return the microbatches of a step, all of prompts or all of images."""
        if self.images is not None and self.is_denoising_step(step):
            return self.images.at(self._denoising_steps_before(step))
        return self.prompts.at(self.reward_steps_before(step))

    def readings_at(self, step: int) -> list[Reading]:
        """Return how to read each microbatch of a step."""
        if self.images is not None and self.is_denoising_step(step):
            return self.images.readings_at(self._denoising_steps_before(step))
        batches = self.prompts.at(self.reward_steps_before(step))
        return [self._reading(batch) for batch in batches]

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step over the prompts, from 0."""
        return self.prompts.epoch_of(self.reward_steps_before(step))

    def images_before_step(self, step: int) -> int:
        """Return the number of images generated or trained on before a step."""
        return step * self.prompts.images_per_step

    def names_at(self, step: int) -> Mapping[str, Sequence[str]]:
        """Return the "prompts" of a step in order, or the paths of its "images"."""
        if self.images is not None and self.is_denoising_step(step):
            return self.images.names_at(self._denoising_steps_before(step))
        return {"prompts": self.prompts.of_step(self.reward_steps_before(step))}

    def is_denoising_step(self, step: int) -> bool:
        """Return whether a step trains on images; the first one never does."""
        return self._denoising_steps_before(step + 1) > self._denoising_steps_before(step)

    def reward_steps_before(self, step: int) -> int:
        """Return how many of the steps before `step` train on prompts."""
        return step - self._denoising_steps_before(step)

    def _reading(self, batch: PromptBatch) -> Reading:
        return lambda: partial(self._unless_leaving, batch)

    def _unless_leaving(self, batch: PromptBatch) -> PromptBatch:
        if self.is_leaving():
            raise StepAbandoned
        return batch

    def _denoising_steps_before(self, step: int) -> int:
        return int(step * self.denoising_fraction)


def prepare_prompts(run: Run, family: Family) -> Prompts | None:
    """Encode the prompts, while the text encoders are on their compute device.

    Returns None if the objective trains on none.

    Raises:
        UserError: If there are no prompts.
        CachingStopped: If asked to stop in the meantime.
    """
    match run.config.objective:
        case AlignProp() as section:
            return _reward_prompts(run, family, section)
        case Slider() as section:
            prompts = slider.prompts_of(section.directions)
            texts = _encoded(run, family, prompts)
            captions = tuple(direction.target for direction in section.directions)
            return Prompts(slider_batches(run.config), texts, captions, None, "direction")
        case Denoising() | Reconstruction():
            return None


def slider_batches(config: TrainConfig) -> PromptBatches:
    """Return the batches of a slider's directions, as labels."""
    section = config.objective
    assert isinstance(section, Slider)
    return _batches(config, section.labels, None, (section.width, section.height))


def _reward_prompts(run: Run, family: Family, section: AlignProp) -> Prompts:
    config = run.config
    split, size = prompts_of(config), (section.rollout.width, section.rollout.height)
    texts = _encoded(run, family, (*split.trained, *split.validation))
    evaluation = section.evaluation
    return Prompts(
        batches=_batches(config, split.trained, texts, size),
        texts=texts,
        captions=split.trained,
        validation=ValidationPrompts(
            prompts=split.validation,
            seeds=evaluation.seeds,
            first_seed=evaluation.seed,
            size=size,
            texts=texts,
            at_once=config.training.batch_size,
        ),
    )


def _batches(
    config: TrainConfig,
    prompts: tuple[str, ...],
    texts: EncodedPrompts | None,
    size: tuple[int, int],
) -> PromptBatches:
    training = config.training
    return PromptBatches(
        prompts=prompts,
        texts=texts,
        batch_size=training.batch_size,
        accumulation=training.accumulation,
        seed=training.seed,
        size=size,
    )


def denoising_fraction(config: TrainConfig) -> float:
    """Return the fraction of denoising steps on images."""
    section = config.objective
    return section.keep.denoising_fraction if isinstance(section, AlignProp) else 1.0


def _encoded(run: Run, family: Family, prompts: Iterable[str]) -> EncodedPrompts | None:
    if encodes_text_each_step(run.config):
        return None
    return EncodedPrompts.of(family, _with_progress(run, prompts))


def _with_progress(run: Run, prompts: Iterable[str]) -> Iterator[str]:
    every = dict.fromkeys([EMPTY, *prompts])
    report = progress_report(run.events, "prompts")
    for done, prompt in enumerate(every):
        if run.inbox.is_leaving():
            raise CachingStopped
        report(done, len(every))
        yield prompt
