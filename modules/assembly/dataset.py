"""The run's pictures: listed, encoded, and handed out step by step."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic, time

from modules.assembly.validation_set import validation_images
from modules.data.batches import Shelf
from modules.data.cache import (
    CachingStopped,
    EncodeOptions,
    EncoderDigests,
    damage_notes,
    encode_captions,
    encode_images,
    encoder_digests,
)
from modules.data.encoded_items import EncodedImages, EncodedTexts, Views
from modules.data.loader import Loader
from modules.data.shards import Store
from modules.evaluation.validation import ValidationImages
from modules.families.prompts.prompts import CHUNK
from modules.interfaces import Batch, Family
from onetrainer.cache.store import prune
from onetrainer.captions.placeholder_tokens import missing_words
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import BatchPlan, portions_of
from onetrainer.dataset.caption_caching import keeps_captions
from onetrainer.dataset.caption_sampling import drawn_caption, plain_caption, varies
from onetrainer.dataset.dataset import Dataset, is_images_alone, read_dataset
from onetrainer.dataset.items import Item
from onetrainer.dataset.near_duplicates import LookingStopped, similar_groups
from onetrainer.dataset.transforms import bucket_at
from onetrainer.images.image_index import ImageMemory
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase, Warned

VALIDATION = "held-out pictures"
"""What of the caching is told apart."""
CAPTIONS = "captions"
COMPARING = "looking for similar pictures"
GB = 10**9
_SECONDS_PER_REPORT = 0.1
_WARNED_IMAGES = 20


@dataclass(frozen=True)
class Batches:
    """The microbatches of each step, a function of the step alone."""

    shelf: Shelf
    plan: BatchPlan
    loader: Loader

    def at(self, step: int) -> Iterator[Batch]:
        """The microbatches of a step, read ahead of it."""
        return self.loader.at(step)

    def epoch_of(self, step: int) -> int:
        """Which pass over the pictures a step belongs to, from 0."""
        return self.plan.epoch_of(step)

    @property
    def trained(self) -> tuple[Item, ...]:
        """The pictures without those that stand for what is to be kept."""
        return tuple(item for item in self.shelf.images.items if not item.is_prior)

    def close(self) -> None:
        """Ends reading ahead, and this run's use of the cache."""
        self.loader.close()
        self.shelf.images.store.close()

    def sizes(self) -> set[tuple[int, int]]:
        """Every width and height, in pixels, that they are shown in."""
        concepts = self.shelf.concepts
        return {
            (bucket.width, bucket.height)
            for item in self.shelf.images.items
            for number in range(len(concepts[item.concept].resolutions))
            for bucket in [bucket_at(item, concepts[item.concept], number)]
        }


@dataclass(frozen=True)
class Images:
    """What the run trains on.

    left_out: the pictures that could not be used, in words. digest: of everything encoded that is
    learnt, in its order: it tells whether two runs see the same. held_out: what is measured
    instead; None if nothing is. new: of how many pictures something was not in the cache yet.
    """

    batches: Batches
    left_out: list[str]
    digest: str
    validation: ValidationImages | None = None
    new: int = 0


def digests_for(config: TrainConfig, family: Family) -> EncoderDigests:
    """What tells the encoders that a run's pictures are encoded with from others.

    To be asked before anything is to train: a decoder that trains may get another number format,
    and what its encoder makes of pictures would count as another model's.
    """
    return encoder_digests(family, with_text=keeps_captions(config))


def prepare_images(
    config: TrainConfig,
    family: Family,
    *,
    digests: EncoderDigests,
    cache: Path,
    events: EventWriter,
    should_stop: Callable[[], bool],
    told: Collection[str],
    first_step: int = 0,
) -> Images:
    """Lists and encodes the pictures. Raises CachingStopped if asked to stop meanwhile.

    digests: of the family, as `digests_for` gives them. told: warnings that the run's events hold
    already. first_step: from which the run goes on.
    """
    store = Store(Path(config.data.cache_folder or cache))
    try:
        encoding = _Encoding(config, family, digests, store, events, should_stop)
        return _prepared(encoding, told=told, first_step=first_step)
    except BaseException:
        store.close()
        raise


def _prepared(encoding: "_Encoding", *, told: Collection[str], first_step: int) -> Images:
    """As `prepare_pictures`, with the cache's folder opened."""
    config, events, folder = encoding.config, encoding.events, encoding.store.folder
    began, clock = time(), monotonic()
    with closing(ImageMemory(folder)) as memory:
        dataset = _read(config, memory, events, encoding.should_stop)
        trained, measured = encoding.images(dataset, memory)
    plan = BatchPlan(
        portions_of(dataset, is_cached=config.data.cache_latents, kept=trained.kept),
        batch_size=config.training.batch_size,
        accumulation=config.training.accumulation,
        seed=config.training.seed,
    )
    texts = None
    if keeps_captions(config):
        steps = range(first_step, config.training.steps)
        texts = encoding.captions(_captions(dataset, trained, measured, plan, steps))
    # A clock that was set back meanwhile has dated what is used now before that.
    _bound(config, folder, since=min(began, time() - (monotonic() - clock)), events=events)
    shelf = Shelf(trained, texts, dataset.concepts, _caption_of(dataset), config.data.latents)
    validation = None
    if measured is not None:
        apart = replace(shelf, images=measured, caption_of=_plain_caption_of(dataset))
        validation = validation_images(config, dataset, apart)
    encoded = [trained] if measured is None else [trained, measured]
    left_out = [str(one) for one in dataset.skipped]
    left_out += [str(one) for each in encoded for one in each.skipped]
    notes = [*dataset.notes, *(note for each in encoded for note in each.warnings)]
    notes += damage_notes(encoding.store)
    if not is_images_alone(config):
        notes += [*_long_captions(encoding.family, shelf), *_unlearnable_words(config, shelf)]
    for text in _warnings(left_out, notes):
        if text not in told:
            events.write(Warned(text))
    loader = Loader(
        shelf,
        plan,
        threads=config.data.loader_threads,
        steps=config.training.steps,
        with_pixels=isinstance(config.objective, Reconstruction),
    )
    new = sum(each.new for each in encoded)
    return Images(Batches(shelf, plan, loader), left_out, _digest(shelf), validation, new)


@dataclass(frozen=True)
class _Encoding:
    """What encodes a run's pictures and captions, and tells of it."""

    config: TrainConfig
    family: Family
    digests: EncoderDigests
    store: Store
    events: EventWriter
    should_stop: Callable[[], bool]

    def images(
        self, dataset: Dataset, memory: ImageMemory
    ) -> tuple[EncodedImages, EncodedImages | None]:
        """Those that are learned, and those that are measured, if any are."""
        encode = partial(
            encode_images,
            self.family,
            store=self.store,
            memory=memory,
            digests=self.digests,
            options=options_of(self.config),
            should_stop=self.should_stop,
        )
        shown = Views(dataset.items, dataset.concepts, is_plain=False)
        trained = encode(shown, progress=_progress(self.events))
        if dataset.validation is None:
            return trained, None
        shown = Views(dataset.validation, dataset.concepts, is_plain=True)
        return trained, encode(shown, progress=_progress(self.events, VALIDATION))

    def captions(self, captions: Sequence[str]) -> EncodedTexts:
        """All of them."""
        return encode_captions(
            self.family,
            captions,
            store=self.store,
            digests=self.digests,
            progress=_progress(self.events, CAPTIONS),
            should_stop=self.should_stop,
        )


def sizes_of(config: TrainConfig, images: Images) -> set[tuple[int, int]]:
    """Every width and height, in pixels, that the model is to compute with."""
    validation = images.validation.sizes if images.validation else ()
    drawn = [(prompt.width, prompt.height) for prompt in config.sampling.prompts]
    return images.batches.sizes() | {*validation, *drawn}


def _read(
    config: TrainConfig,
    memory: ImageMemory,
    events: EventWriter,
    should_stop: Callable[[], bool],
) -> Dataset:
    """Every picture; those that look alike are found only where it matters what is held out."""
    validation = config.validation
    is_compared = validation.use and validation.keep_similar

    def similar(items: Sequence[Item]) -> Sequence[int]:
        told = _progress(events, COMPARING)
        try:
            return similar_groups(items, memory, told, should_stop=should_stop)
        except LookingStopped as error:
            raise CachingStopped from error

    return read_dataset(config, headers=memory, similar=similar if is_compared else None)


def options_of(config: TrainConfig) -> EncodeOptions:
    """How a run's pictures are encoded."""
    data = config.data
    return EncodeOptions(
        keeps_latents=data.cache_latents,
        batch=data.cache_batch,
        threads=data.loader_threads,
        conditioning=data.conditioning if config.model.family.endswith("inpainting") else "blank",
    )


def _caption_of(dataset: Dataset) -> Callable[[Item, int], str]:
    def caption(item: Item, turn: int) -> str:
        return drawn_caption(item, dataset.concepts[item.concept], turn)

    return caption


def _plain_caption_of(dataset: Dataset) -> Callable[[Item, int], str]:
    def caption(item: Item, _turn: int) -> str:
        return plain_caption(item, dataset.concepts[item.concept])

    return caption


def _captions(
    dataset: Dataset,
    trained: EncodedImages,
    measured: EncodedImages | None,
    plan: BatchPlan,
    steps: range,
) -> list[str]:
    """Every caption that is shown in some steps or measured, once, the empty one first."""
    found = {"": None}
    for item in measured.items if measured else ():
        found[plain_caption(item, dataset.concepts[item.concept])] = None
    if any(varies(concept.captions) for concept in dataset.concepts):
        shown = (one for step in steps for one in plan.at(step).images)
        caption = _caption_of(dataset)
        return list(found | {caption(trained.items[one.item], one.turn): None for one in shown})
    for item in trained.items:
        concept = _without_dropout(dataset.concepts[item.concept])
        # One after the other they are all there are.
        for turn in range(len(item.captions)):
            found[drawn_caption(item, concept, turn)] = None
    return list(found)


def _without_dropout(concept: ConceptSettings) -> ConceptSettings:
    return replace(concept, captions=concept.captions.model_copy(update={"dropout": 0.0}))


def _bound(config: TrainConfig, folder: Path, *, since: float, events: EventWriter) -> None:
    """Removes what was not used for longest from a cache that has become too large."""
    if not config.data.cache_limit:
        return
    report = prune(folder, limit_bytes=round(config.data.cache_limit * GB), since=since)
    if report.freed_bytes:
        freed = f"{report.freed_bytes / GB:.1f} GB of older encodings removed"
        events.write(Phase("caching", detail=freed))


def _long_captions(family: Family, shelf: Shelf) -> list[str]:
    """What to tell of captions that other programs would cut."""
    captions = {caption for item in shelf.images.items for caption in item.captions}
    counts = [family.count_tokens(caption) for caption in captions]
    long = [count for count in counts if count > CHUNK]
    if not long:
        return []
    noun = f"{len(long)} caption{'s' if len(long) > 1 else ''}"
    return [
        f"{noun} longer than {CHUNK} tokens (the longest has {max(long)}): read in pieces of"
        f" {CHUNK}, nothing is cut"
    ]


def _unlearnable_words(config: TrainConfig, shelf: Shelf) -> list[str]:
    """What to tell of words that are to be learnt and that no caption holds."""
    words = [each.token for each in config.embeddings.tokens]
    captions = [
        caption
        for item in shelf.images.items
        if not item.is_prior
        for caption in (*item.captions, plain_caption(item, shelf.concepts[item.concept]))
    ]
    absent = missing_words(captions, words)
    return [f'no caption holds the word "{word}", so nothing is learnt of it' for word in absent]


def _digest(shelf: Shelf) -> str:
    seen = hashlib.sha256()
    for line, item in zip(shelf.images.digest_lines(), shelf.images.items, strict=True):
        captions = "\n".join(item.captions)
        seen.update(f"{line} {item.role} {item.concept}\n{captions}\n".encode())
    for concept in shelf.concepts:
        told = (concept.role, concept.repeats, concept.images, concept.loss_weight, concept.seed)
        seen.update(f"{told} {concept.captions} {concept.trigger}\n".encode())
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
    told = [f"left out: {text}" for text in left_out[:_WARNED_IMAGES]]
    rest = len(left_out) - _WARNED_IMAGES
    if rest > 0:
        told.append(f"{rest} more pictures are left out; the summary names them all")
    return told + notes
