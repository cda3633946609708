"""Training data of a run: images, prompts, or both."""

from collections import Counter
from dataclasses import dataclass

from modules.assembly.dataset import (
    Caching,
    Images,
    cache_folder,
    digests_for,
    prepare_images,
    sizes_of,
)
from modules.assembly.metadata import DatasetFacts, count_tags
from modules.assembly.prompts import Prompts, prepare_prompts
from modules.assembly.run_context import Run
from modules.data.cache import EncoderDigests
from modules.evaluation.validation import ValidationImages
from modules.interfaces import Family
from onetrainer.config.train import uses_images
from onetrainer.dataset.buckets import Bucket
from onetrainer.messages.formatting import counted


@dataclass(frozen=True)
class Inputs:
    """Encoded training and validation data.

    Attributes:
        images: None if the run uses no images.
        prompts: None if the objective trains on images alone.
    """

    images: Images | None
    prompts: Prompts | None

    @property
    def digest(self) -> str:
        """Digest of the training data, equal for two runs with the same data."""
        digests = [data.digest for data in (self.images, self.prompts) if data is not None]
        return " ".join(digests)

    @property
    def digests(self) -> dict[str, str]:
        """Digests of what a person may have changed since a checkpoint, by what it is."""
        found: dict[str, str] = {}
        if self.images is not None:
            found |= {"training images": self.images.files, "captions": self.images.captions}
        if self.prompts is not None:
            found["prompts"] = self.prompts.digest
        return found

    @property
    def validation(self) -> ValidationImages | None:
        """The validation images; None without validation."""
        return self.images.validation if self.images is not None else None

    def close(self) -> None:
        """Stop prefetching, and end the use of the cache."""
        if self.images is not None:
            self.images.batches.close()

    def verify(self) -> None:
        """Find all damaged cache entries, so that the next start encodes them again."""
        if self.images is not None:
            self.images.batches.batch_source.images.store.verify()

    def facts(self) -> DatasetFacts:
        """Return the facts about the dataset that output files may contain."""
        if self.images is not None:
            validation = 0 if self.validation is None else len(self.validation.names)
            return DatasetFacts.of(self.images.batches, self.digest, validation=validation)
        assert self.prompts is not None
        batches = self.prompts.batches
        return DatasetFacts(
            buckets=Counter[Bucket](),
            tags=count_tags(list(self.prompts.captions)),
            steps_per_epoch=max(1, -(-len(batches.prompts) // batches.images_per_step)),
            digest=self.digest,
        )

    def summary(self) -> list[str]:
        """Return lines for the end of a run: number of items trained on, and what was left out."""
        lines = []
        if self.prompts is not None:
            lines.append(
                f"Trained on {counted(len(self.prompts.batches.prompts), self.prompts.noun)}."
            )
        if self.images is not None:
            count = len(self.images.batches.trained)
            lines.append(f"Trained on {counted(count, 'image')}.")
            if self.images.skipped:
                lines.append(f"{len(self.images.skipped)} left out:")
                lines += self.images.skipped
        return lines


def encoder_digests_of(run: Run, family: Family) -> EncoderDigests | None:
    """Return digests of the encoders for a run's images; None if it uses no images.

    Call before anything is set to train.
    """
    return digests_for(run.config, family) if uses_images(run.config) else None


def prepare_inputs(run: Run, family: Family, digests: EncoderDigests | None) -> Inputs:
    """List and encode the training data.

    Raises:
        CachingStopped: If asked to stop in the meantime.
    """
    images = None
    if digests is not None:
        folder = cache_folder(run.config, run.folder.path)
        images = prepare_images(
            run.config,
            family,
            Caching(folder, run.events, run.inbox.is_leaving, run.world),
            digests=digests,
            past_warnings=run.past_warnings,
            first_step=run.first_step,
        )
        family.encode_blank_images(sizes_of(run.config, images))
    return Inputs(images, prepare_prompts(run, family))
