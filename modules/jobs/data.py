"""The run's pictures: listed, encoded, and handed out step by step."""

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import torch

from modules.data.batches import BatchPlan, load_batch
from modules.data.cache import CachedDataset, encode_dataset
from modules.families.prompts import CHUNK
from modules.interfaces import Batch, Family
from onetrainer.config.train import TrainConfig
from onetrainer.dataset_index import index_folder
from onetrainer.event_log import EventWriter
from onetrainer.events import Phase, Warned

_SECONDS_PER_REPORT = 0.1
_WARNED_PICTURES = 20


@dataclass(frozen=True)
class Batches:
    """The microbatches of each step, a function of the step alone."""

    dataset: CachedDataset
    plan: BatchPlan
    seed: int
    caption_dropout: float

    def at(self, step: int) -> Iterator[Batch]:
        """The microbatches of a step, read from the cache one by one."""
        plan = self.plan.at(step)
        for number in range(len(plan.microbatches)):
            yield load_batch(
                self.dataset, plan, number, seed=self.seed, caption_dropout=self.caption_dropout
            )

    def epoch_of(self, step: int) -> int:
        """Which pass over the pictures a step belongs to, from 0."""
        return self.plan.epoch_of(step)


@dataclass(frozen=True)
class Pictures:
    """What the run trains on.

    left_out: the pictures that could not be used, in words. digest: of everything encoded, in its
    order: it tells whether two runs see the same.
    """

    batches: Batches
    left_out: list[str]
    digest: str


def prepare_pictures(
    config: TrainConfig,
    family: Family,
    *,
    cache: Path,
    device: torch.device,
    events: EventWriter,
    should_stop: Callable[[], bool],
    told: Collection[str],
) -> Pictures:
    """Lists and encodes the pictures. Raises CachingStopped if asked to stop meanwhile.

    told: warnings that the run's events hold already.
    """
    index = index_folder(
        config.data.folder,
        resolution=config.data.resolution,
        include_subfolders=config.data.include_subfolders,
        require_captions=config.data.require_captions,
    )
    dataset = encode_dataset(
        family,
        index.items,
        folder=Path(config.data.cache_folder or cache),
        device=device,
        with_text=not config.method.train_text_encoder,
        progress=_progress(events),
        should_stop=should_stop,
    )
    left_out = [str(picture) for picture in (*index.skipped, *dataset.skipped)]
    long = _long_captions(family, dataset)
    for text in _warnings(left_out, [*index.notes, *dataset.warnings, *long]):
        if text not in told:
            events.write(Warned(text))
    plan = BatchPlan(
        [item.bucket for item in dataset.items],
        batch_size=config.training.batch_size,
        accumulation=config.training.accumulation,
        seed=config.training.seed,
    )
    batches = Batches(dataset, plan, config.training.seed, config.objective.caption_dropout)
    return Pictures(batches, left_out, _digest(dataset))


def _long_captions(family: Family, dataset: CachedDataset) -> list[str]:
    """What to tell of captions that other programs would cut."""
    counts = [family.count_tokens(item.caption) for item in dataset.items]
    long = [count for count in counts if count > CHUNK]
    if not long:
        return []
    captions = f"{len(long)} caption{'s' if len(long) > 1 else ''}"
    return [
        f"{captions} longer than {CHUNK} tokens (the longest has {max(long)}): read in pieces of"
        f" {CHUNK}, nothing is cut"
    ]


def _digest(dataset: CachedDataset) -> str:
    seen = hashlib.sha256()
    for key, item in zip(dataset.latent_keys, dataset.items, strict=True):
        seen.update(f"{key} {item.caption}\n".encode())
    return seen.hexdigest()


def _progress(events: EventWriter) -> Callable[[int, int], None]:
    """Tells how far caching is, a few times a second."""
    last = -_SECONDS_PER_REPORT

    def tell(done: int, total: int) -> None:
        nonlocal last
        if done == total or monotonic() - last >= _SECONDS_PER_REPORT:
            last = monotonic()
            events.write(Phase("caching", done, total))

    return tell


def _warnings(left_out: list[str], notes: list[str]) -> list[str]:
    told = [f"left out: {text}" for text in left_out[:_WARNED_PICTURES]]
    rest = len(left_out) - _WARNED_PICTURES
    if rest > 0:
        told.append(f"{rest} more pictures are left out; the summary names them all")
    return told + notes
