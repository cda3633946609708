"""The run's pictures: listed, encoded, and handed out step by step."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

from modules.data.batches import BatchPlan, load_batch
from modules.data.cache import CachedDataset, EncoderDigests, encode_dataset, encoder_digests
from modules.families.prompts import CHUNK
from modules.interfaces import Batch, Family
from modules.jobs.attach import encodes_text_anew
from modules.jobs.held_out import held_out_pictures
from modules.validation import HeldOutPictures
from onetrainer.caption_words import missing_words
from onetrainer.config.denoising import Denoising
from onetrainer.config.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig
from onetrainer.dataset import (
    Split,
    hold_out,
    index_class_pictures,
    index_pictures,
    is_pictures_alone,
)
from onetrainer.dataset_index import DatasetIndex
from onetrainer.event_log import EventWriter
from onetrainer.events import Phase, Warned

HELD_OUT = "held-out pictures"
"""What of the caching is told apart."""
_SECONDS_PER_REPORT = 0.1
_WARNED_PICTURES = 20


@dataclass(frozen=True)
class Batches:
    """The microbatches of each step, a function of the step alone."""

    dataset: CachedDataset
    plan: BatchPlan
    seed: int
    caption_dropout: float
    with_pixels: bool = False

    def at(self, step: int) -> Iterator[Batch]:
        """The microbatches of a step, read from the cache one by one."""
        plan = self.plan.at(step)
        for number in range(len(plan.microbatches)):
            yield load_batch(
                self.dataset,
                plan,
                number,
                seed=self.seed,
                caption_dropout=self.caption_dropout,
                with_pixels=self.with_pixels,
            )

    def epoch_of(self, step: int) -> int:
        """Which pass over the pictures a step belongs to, from 0."""
        return self.plan.epoch_of(step)


@dataclass(frozen=True)
class Pictures:
    """What the run trains on.

    left_out: the pictures that could not be used, in words. digest: of everything encoded that is
    learnt, in its order: it tells whether two runs see the same. held_out: what is measured
    instead; None if nothing is.
    """

    batches: Batches
    left_out: list[str]
    digest: str
    held_out: HeldOutPictures | None = None


def digests_for(config: TrainConfig, family: Family) -> EncoderDigests:
    """What tells the encoders that a run's pictures are encoded with from others.

    To be asked before anything is to train: a decoder that trains may get another number format,
    and what its encoder makes of pictures would count as another model's.
    """
    return encoder_digests(family, with_text=_caches_captions(config))


def prepare_pictures(
    config: TrainConfig,
    family: Family,
    *,
    digests: EncoderDigests,
    cache: Path,
    events: EventWriter,
    should_stop: Callable[[], bool],
    told: Collection[str],
) -> Pictures:
    """Lists and encodes the pictures. Raises CachingStopped if asked to stop meanwhile.

    digests: of the family, as `digests_for` gives them. told: warnings that the run's events hold
    already.
    """
    split = hold_out(config, index_pictures(config))
    found = (split.learnt, _class_pictures(config, split))
    listed = [index for index in found if index is not None]
    encode: Callable[..., CachedDataset] = partial(
        encode_dataset,
        family,
        folder=Path(config.data.cache_folder or cache),
        with_text=_caches_captions(config),
        with_latents=config.data.cache_latents,
        should_stop=should_stop,
        digests=digests,
    )
    dataset = encode([item for each in listed for item in each.items], progress=_progress(events))
    encoded, held_out = [dataset], None
    if split.held_out is not None:
        listed.append(split.held_out)
        encoded.append(encode(split.held_out.items, progress=_progress(events, HELD_OUT)))
        held_out = held_out_pictures(config, split, encoded[-1])
    skipped = [one for each in listed for one in each.skipped]
    left_out = [str(one) for one in (*skipped, *(one for each in encoded for one in each.skipped))]
    notes = [note for each in listed for note in each.notes]
    notes += [note for each in encoded for note in each.warnings]
    if not is_pictures_alone(config):
        notes += [*_long_captions(family, dataset), *_unlearnable_words(config, dataset)]
    for text in _warnings(left_out, notes):
        if text not in told:
            events.write(Warned(text))
    plan = BatchPlan(
        [item.bucket for item in dataset.items if not item.is_prior],
        batch_size=config.training.batch_size,
        accumulation=config.training.accumulation,
        seed=config.training.seed,
        class_buckets=[item.bucket for item in dataset.items if item.is_prior],
    )
    batches = Batches(
        dataset,
        plan,
        config.training.seed,
        _caption_dropout(config),
        with_pixels=isinstance(config.objective, Reconstruction),
    )
    return Pictures(batches, left_out, _digest(dataset), held_out)


def _class_pictures(config: TrainConfig, split: Split) -> DatasetIndex | None:
    """Those that are not held out: the model is not to be trained on what is measured."""
    found = index_class_pictures(config)
    if found is None or split.held_out is None:
        return found
    held = {os.path.realpath(item.path) for item in split.held_out.items}
    kept = tuple(item for item in found.items if os.path.realpath(item.path) not in held)
    uncaptioned = sum(not item.caption for item in kept)
    return replace(found, items=kept, uncaptioned=uncaptioned)


def sizes_of(config: TrainConfig, pictures: Pictures) -> set[tuple[int, int]]:
    """Every width and height, in pixels, that the model is to compute with."""
    items = pictures.batches.dataset.items
    held_out = pictures.held_out.sizes if pictures.held_out else ()
    drawn = [(prompt.width, prompt.height) for prompt in config.sampling.prompts]
    return {(item.bucket.width, item.bucket.height) for item in items} | {*held_out, *drawn}


def _caches_captions(config: TrainConfig) -> bool:
    return not is_pictures_alone(config) and not encodes_text_anew(config)


def _caption_dropout(config: TrainConfig) -> float:
    return config.objective.caption_dropout if isinstance(config.objective, Denoising) else 0.0


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


def _unlearnable_words(config: TrainConfig, dataset: CachedDataset) -> list[str]:
    """What to tell of words that are to be learnt and that no caption holds."""
    words = [each.word for each in config.embeddings.words]
    absent = missing_words([item.caption for item in dataset.learnt], words)
    return [f'no caption holds the word "{word}", so nothing is learnt of it' for word in absent]


def _digest(dataset: CachedDataset) -> str:
    seen = hashlib.sha256()
    for key, mask, item in zip(dataset.latent_keys, dataset.mask_keys, dataset.items, strict=True):
        seen.update(f"{key} {item.caption}\n".encode())
        if mask:
            seen.update(f"mask {mask}\n".encode())
        if item.is_prior:
            seen.update(b"class\n")
    return seen.hexdigest()


def _progress(events: EventWriter, detail: str = "") -> Callable[[int, int], None]:
    """Tells how far caching is, a few times a second."""
    last = -_SECONDS_PER_REPORT

    def tell(done: int, total: int) -> None:
        nonlocal last
        if done == total or monotonic() - last >= _SECONDS_PER_REPORT:
            last = monotonic()
            events.write(Phase("caching", done, total, detail))

    return tell


def _warnings(left_out: list[str], notes: list[str]) -> list[str]:
    told = [f"left out: {text}" for text in left_out[:_WARNED_PICTURES]]
    rest = len(left_out) - _WARNED_PICTURES
    if rest > 0:
        told.append(f"{rest} more pictures are left out; the summary names them all")
    return told + notes
