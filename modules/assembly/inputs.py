"""What a run learns from: pictures, prompts, or both."""

from collections import Counter
from dataclasses import dataclass

from modules.assembly.dataset import Images, digests_for, prepare_images, sizes_of
from modules.assembly.metadata import DatasetFacts, count_tags
from modules.assembly.prompts import RewardPrompts, prepare_prompts
from modules.assembly.run_context import Run
from modules.data.cache import EncoderDigests
from modules.evaluation.validation import ValidationImages
from modules.families.stable_diffusion import StableDiffusion
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import uses_images
from onetrainer.dataset.buckets import Bucket


@dataclass(frozen=True)
class Inputs:
    """What is learned and what is held out, encoded.

    pictures: None where a run needs none. prompts: those of reward training, None of others.
    """

    images: Images | None
    prompts: RewardPrompts | None

    @property
    def digest(self) -> str:
        """Tells whether two runs learn from the same."""
        parts = [each.digest for each in (self.images, self.prompts) if each is not None]
        return " ".join(parts)

    @property
    def validation(self) -> ValidationImages | None:
        """The pictures that are measured; None if none are."""
        return self.images.validation if self.images is not None else None

    def close(self) -> None:
        """Ends reading ahead, and the use of the cache."""
        if self.images is not None:
            self.images.batches.close()

    def verify(self) -> None:
        """Finds all that is damaged of what was encoded, so that a new start makes it anew."""
        if self.images is not None:
            self.images.batches.shelf.images.store.verify()

    def facts(self) -> DatasetFacts:
        """What of it may be told."""
        if self.images is not None:
            validation = 0 if self.validation is None else len(self.validation.names)
            return DatasetFacts.of(self.images.batches, self.digest, validation=validation)
        assert self.prompts is not None
        drawn = self.prompts.batches
        return DatasetFacts(
            buckets=Counter[Bucket](),
            tags=count_tags(list(drawn.prompts)),
            steps_per_epoch=max(1, -(-len(drawn.prompts) // drawn.images_per_step)),
            digest=self.digest,
        )

    def summary(self) -> list[str]:
        """What it was, and what was left out, for the end of a run."""
        lines = []
        if self.prompts is not None:
            lines.append(f"Trained on {_counted(len(self.prompts.batches.prompts), 'prompt')}.")
        if self.images is not None:
            count = len(self.images.batches.trained)
            lines.append(f"Trained on {_counted(count, 'picture')}.")
            if self.images.left_out:
                lines.append(f"{len(self.images.left_out)} left out:")
                lines += self.images.left_out
        return lines


def encoders_of(run: Run, family: StableDiffusion) -> EncoderDigests | None:
    """What tells the encoders of a run's pictures from others; None where it has none.

    To be asked before anything is to train.
    """
    return digests_for(run.config, family) if uses_images(run.config) else None


def prepare_inputs(run: Run, family: StableDiffusion, digests: EncoderDigests | None) -> Inputs:
    """Lists and encodes what there is. Raises CachingStopped if asked to stop meanwhile."""
    images = prompts = None
    if digests is not None:
        images = prepare_images(
            run.config,
            family,
            digests=digests,
            cache=run.folder.path.parent / "cache",
            events=run.events,
            should_stop=run.inbox.is_leaving,
            told=run.told,
            first_step=run.first_step,
        )
        family.prepare_blanks(sizes_of(run.config, images))
    if isinstance(run.config.objective, AlignProp):
        prompts = prepare_prompts(run, family)
    return Inputs(images, prompts)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
