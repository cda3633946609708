"""The prompts of a run of reward training, encoded, and handed out step by step."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

from modules.assembly.dataset import Batches
from modules.assembly.run_context import Run
from modules.data.cache import CachingStopped
from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.evaluation.prompts import ValidationPrompts
from modules.interfaces import Batch, Family, PromptBatch
from modules.trainer import StepAbandoned
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_caching import encodes_text_anew
from onetrainer.rewards.prompts import PromptSplit, prompts_of
from onetrainer.run.events import Phase

_SECONDS_PER_REPORT = 0.1


@dataclass(frozen=True)
class RewardPrompts:
    """What is drawn: to learn, and to look at. digest: of all prompts that are learnt."""

    batches: PromptBatches
    validation: ValidationPrompts
    digest: str


@dataclass(frozen=True)
class MixedBatches:
    """Steps that draw prompts, and among them ordinary ones on pictures, evenly spread.

    share: of the ordinary ones, in [0, 1). is_leaving: asked before each microbatch of prompts,
    which may take minutes, whether the run is to end; then StepAbandoned is raised.
    """

    prompts: PromptBatches
    images: Batches | None
    share: float
    is_leaving: Callable[[], bool]

    def at(self, step: int) -> Iterable[Batch | PromptBatch]:
        """The microbatches of a step, all of one kind."""
        if self.images is not None and self.is_ordinary(step):
            return self.images.at(self._ordinary_before(step))
        return self._unless_leaving(self.prompts.at(self.drawn_before(step)))

    def epoch_of(self, step: int) -> int:
        """Which pass over the prompts a step belongs to, from 0."""
        return self.prompts.epoch_of(self.drawn_before(step))

    def is_ordinary(self, step: int) -> bool:
        """Whether a step is one on pictures; the first one is not."""
        return self._ordinary_before(step + 1) > self._ordinary_before(step)

    def drawn_before(self, step: int) -> int:
        """How many of the steps before one draw prompts."""
        return step - self._ordinary_before(step)

    def _unless_leaving(self, batches: Iterable[PromptBatch]) -> Iterator[PromptBatch]:
        for batch in batches:
            if self.is_leaving():
                raise StepAbandoned
            yield batch

    def _ordinary_before(self, step: int) -> int:
        return int(step * self.share)


def prepare_prompts(run: Run, family: Family) -> RewardPrompts:
    """Encodes the prompts. Raises UserError where there are none, CachingStopped if asked to stop.

    To be called while the text encoders are where they compute.
    """
    config, section = run.config, run.config.objective
    assert isinstance(section, AlignProp)
    split, size = prompts_of(config), (section.rollout.width, section.rollout.height)
    texts = None if encodes_text_anew(config) else _encoded(run, family, split)
    watched = section.evaluation
    return RewardPrompts(
        batches=PromptBatches(
            prompts=split.trained,
            texts=texts,
            batch_size=config.training.batch_size,
            accumulation=config.training.accumulation,
            seed=config.training.seed,
            size=size,
        ),
        validation=ValidationPrompts(
            prompts=split.validation,
            seeds=watched.seeds,
            first_seed=watched.seed,
            size=size,
            texts=texts,
            at_once=config.training.batch_size,
        ),
        digest=hashlib.sha256("\n".join(split.trained).encode()).hexdigest(),
    )


def ordinary_share(config: TrainConfig) -> float:
    """Which share of the steps is on pictures."""
    section = config.objective
    return section.keep.denoising_share if isinstance(section, AlignProp) else 1.0


def _encoded(run: Run, family: Family, split: PromptSplit) -> EncodedPrompts:
    every = list(dict.fromkeys([EMPTY, *split.trained, *split.validation]))
    return EncodedPrompts.of(family, _counted(run, every))


def _counted(run: Run, prompts: list[str]) -> Iterator[str]:
    told = -_SECONDS_PER_REPORT
    for done, prompt in enumerate(prompts):
        if run.inbox.is_leaving():
            raise CachingStopped
        if monotonic() - told >= _SECONDS_PER_REPORT:
            told = monotonic()
            run.events.write(Phase("caching", done, len(prompts), "prompts"))
        yield prompt
