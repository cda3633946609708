"""Images of a run: listed, encoded, and batched step by step."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic, time

from modules.assembly.validation_set import validation_images
from modules.data.batches import BatchSource
from modules.data.cache import (
    CachingStopped,
    EncodeOptions,
    EncoderDigests,
    damage_notes,
    encode_captions,
    encode_images,
    encoder_digests,
)
from modules.data.encoded_items import EncodedImages, EncodedTexts, TransformTable
from modules.data.loader import Loader
from modules.data.shards import Store
from modules.evaluation.validation import ValidationImages
from modules.families.prompts.prompts import CHUNK
from modules.interfaces import Batch, Family
from onetrainer.cache.store import prune
from onetrainer.captions.placeholder_tokens import missing_tokens
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.caption_caching import caches_captions
from onetrainer.dataset.caption_sampling import captions_vary, plain_caption, sample_caption
from onetrainer.dataset.dataset import Dataset, read_dataset, uses_images_only
from onetrainer.dataset.items import Item
from onetrainer.dataset.near_duplicates import AnalysisCancelled, near_duplicate_groups
from onetrainer.dataset.transforms import bucket_at
from onetrainer.families.registry import family_spec
from onetrainer.images.image_index import ImageIndex
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase, Warned

VALIDATION = "validation images"
"""Details of `Phase` events while caching."""
CAPTIONS = "captions"
COMPARING = "looking for similar images"
GB = 10**9
_SECONDS_PER_REPORT = 0.1
_WARNED_IMAGES = 20


@dataclass(frozen=True)
class Batches:
    """Microbatches of each step, a function of the step alone."""

    batch_source: BatchSource
    plan: BatchPlan
    loader: Loader

    def at(self, step: int) -> Iterator[Batch]:
        """Return the microbatches of a step, which are prefetched."""
        return self.loader.at(step)

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step, from 0."""
        return self.plan.epoch_of(step)

    @property
    def trained(self) -> tuple[Item, ...]:
        """The images without those for prior preservation."""
        return tuple(item for item in self.batch_source.images.items if not item.is_prior)

    def close(self) -> None:
        """Stop prefetching, and end this run's use of the cache."""
        self.loader.close()
        self.batch_source.images.store.close()

    def sizes(self) -> set[tuple[int, int]]:
        """Return every width and height of the images' buckets, in pixels."""
        concepts = self.batch_source.concepts
        return {
            (bucket.width, bucket.height)
            for item in self.batch_source.images.items
            for number in range(len(concepts[item.concept].resolutions))
            for bucket in [bucket_at(item, concepts[item.concept], number)]
        }


@dataclass(frozen=True)
class Images:
    """The run's training and validation images, encoded.

    Attributes:
        skipped: Messages about images that cannot be used.
        digest: Of the encoded training data in its order; equal for two runs with the same data.
        identity: Of the data, independent of the encoders: equal on every device.
        validation: None without validation.
        new: Number of images that were not completely in the cache before.
    """

    batches: Batches
    skipped: list[str]
    digest: str
    identity: str
    validation: ValidationImages | None = None
    new: int = 0


def digests_for(config: TrainConfig, family: Family) -> EncoderDigests:
    """Return digests of the encoders that encode the run's data.

    Call before anything is set to train: a trained decoder may get another dtype, and its encoder
    would then count as another model's.
    """
    return encoder_digests(family, with_text=caches_captions(config))


def prepare_images(
    config: TrainConfig,
    family: Family,
    *,
    digests: EncoderDigests,
    cache: Path,
    events: EventWriter,
    should_stop: Callable[[], bool],
    past_warnings: Collection[str],
    first_step: int = 0,
) -> Images:
    """List and encode the images.

    digests: Of the family, from `digests_for`.
    past_warnings: Warnings that the run's events contain already.
    first_step: Step that the run continues from.

    Raises:
        CachingStopped: If asked to stop in the meantime.
    """
    store = Store(Path(config.data.cache_folder or cache))
    try:
        encoding = _Encoding(config, family, digests, store, events, should_stop)
        return _prepare(encoding, past_warnings=past_warnings, first_step=first_step)
    except BaseException:
        store.close()
        raise


def _prepare(encoding: "_Encoding", *, past_warnings: Collection[str], first_step: int) -> Images:
    config, events, folder = encoding.config, encoding.events, encoding.store.folder
    start_time, start_clock = time(), monotonic()
    with closing(ImageIndex(folder)) as memory:
        dataset = _read(config, memory, events, encoding.should_stop)
        trained, measured = encoding.images(dataset, memory)
    plan = BatchPlan(
        concept_slices(dataset, is_cached=config.data.cache_latents, kept=trained.usable),
        batch_size=config.training.batch_size,
        accumulation=config.training.accumulation,
        seed=config.training.seed,
    )
    texts = None
    if caches_captions(config):
        steps = range(first_step, config.training.steps)
        texts = encoding.captions(_captions(dataset, trained, measured, plan, steps))
    # If the clock was set back in the meantime, entries used now carry an earlier date.
    start_time = min(start_time, time() - (monotonic() - start_clock))
    _limit_cache(config, folder, since=start_time, events=events)
    batch_source = BatchSource(
        trained, texts, dataset.concepts, _caption_sampler(dataset), config.data.latents
    )
    validation = None
    if measured is not None:
        measured_shelf = replace(batch_source, images=measured, caption_of=_plain_captions(dataset))
        validation = validation_images(config, dataset, measured_shelf)
    encoded = [trained] if measured is None else [trained, measured]
    skipped = [str(image) for image in dataset.skipped]
    skipped += [str(image) for images in encoded for image in images.skipped]
    notes = [*dataset.notes, *(note for images in encoded for note in images.warnings)]
    notes += damage_notes(encoding.store)
    if not uses_images_only(config):
        notes += _long_caption_warnings(encoding.family, batch_source)
        notes += _missing_token_warnings(config, batch_source)
    for text in _warnings(skipped, notes):
        if text not in past_warnings:
            events.write(Warned(text))
    loader = Loader(
        batch_source,
        plan,
        threads=config.data.loader_threads,
        steps=config.training.steps,
        with_pixels=isinstance(config.objective, Reconstruction),
    )
    new = sum(images.new for images in encoded)
    return Images(
        Batches(batch_source, plan, loader),
        skipped,
        digest=_digest(batch_source, batch_source.images.digest_lines()),
        identity=_digest(batch_source, batch_source.images.identity_lines()),
        validation=validation,
        new=new,
    )


@dataclass(frozen=True)
class _Encoding:
    """Encodes a run's images and captions, and reports progress."""

    config: TrainConfig
    family: Family
    digests: EncoderDigests
    store: Store
    events: EventWriter
    should_stop: Callable[[], bool]

    def images(
        self, dataset: Dataset, memory: ImageIndex
    ) -> tuple[EncodedImages, EncodedImages | None]:
        """Return the training images, and the validation images if there are any."""
        encode = partial(
            encode_images,
            self.family,
            store=self.store,
            file_digests=memory,
            digests=self.digests,
            options=options_of(self.config),
            should_stop=self.should_stop,
        )
        transforms = TransformTable(dataset.items, dataset.concepts, is_plain=False)
        trained = encode(transforms, progress=_progress(self.events))
        if dataset.validation is None:
            return trained, None
        transforms = TransformTable(dataset.validation, dataset.concepts, is_plain=True)
        return trained, encode(transforms, progress=_progress(self.events, VALIDATION))

    def captions(self, captions: Sequence[str]) -> EncodedTexts:
        """Encode captions."""
        return encode_captions(
            self.family,
            captions,
            store=self.store,
            digests=self.digests,
            progress=_progress(self.events, CAPTIONS),
            should_stop=self.should_stop,
        )


def sizes_of(config: TrainConfig, images: Images) -> set[tuple[int, int]]:
    """Return every image size that the model computes with: width and height in pixels."""
    validation = images.validation.sizes if images.validation else ()
    samples = [(prompt.width, prompt.height) for prompt in config.sampling.prompts]
    return images.batches.sizes() | {*validation, *samples}


def _read(
    config: TrainConfig,
    memory: ImageIndex,
    events: EventWriter,
    should_stop: Callable[[], bool],
) -> Dataset:
    """Read the dataset; group near duplicates only if the validation split depends on them."""
    validation = config.validation
    is_compared = validation.use and validation.keep_similar

    def group_similar(items: Sequence[Item]) -> Sequence[int]:
        progress = _progress(events, COMPARING)
        try:
            return near_duplicate_groups(items, memory, progress, should_stop=should_stop)
        except AnalysisCancelled as error:
            raise CachingStopped from error

    return read_dataset(
        config, headers=memory, group_similar=group_similar if is_compared else None
    )


def options_of(config: TrainConfig) -> EncodeOptions:
    """Return how a run's images are encoded."""
    data = config.data
    sees_masked = family_spec(config.model.family).sees_masked_image
    return EncodeOptions(
        caches_latents=data.cache_latents,
        batch=data.cache_batch,
        threads=data.loader_threads,
        conditioning=data.conditioning if sees_masked else "blank",
    )


def _caption_sampler(dataset: Dataset) -> Callable[[Item, int], str]:
    def caption(item: Item, repeat: int) -> str:
        return sample_caption(item, dataset.concepts[item.concept], repeat)

    return caption


def _plain_captions(dataset: Dataset) -> Callable[[Item, int], str]:
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
    """Return every caption that the steps or the validation need, once, the empty one first."""
    captions = {"": None}
    for item in measured.items if measured else ():
        captions[plain_caption(item, dataset.concepts[item.concept])] = None
    if any(captions_vary(concept.captions) for concept in dataset.concepts):
        planned = (image for step in steps for image in plan.at(step).images)
        caption = _caption_sampler(dataset)
        sampled = {caption(trained.items[image.item], image.repeat): None for image in planned}
        return list(captions | sampled)
    for item in trained.items:
        concept = dataset.concepts[item.concept]
        without_dropout = concept.captions.model_copy(update={"dropout": 0.0})
        concept = replace(concept, captions=without_dropout)
        # An item's repeats use its captions in turn.
        for repeat in range(len(item.captions)):
            captions[sample_caption(item, concept, repeat)] = None
    return list(captions)


def _limit_cache(config: TrainConfig, folder: Path, *, since: float, events: EventWriter) -> None:
    """Remove the entries unused for longest if the cache is larger than its limit."""
    if not config.data.cache_limit:
        return
    report = prune(folder, limit_bytes=round(config.data.cache_limit * GB), since=since)
    if report.freed_bytes:
        freed = f"{report.freed_bytes / GB:.1f} GB of older encodings removed"
        events.write(Phase("caching", detail=freed))


def _long_caption_warnings(family: Family, batch_source: BatchSource) -> list[str]:
    """Warn of captions that other programs truncate."""
    captions = {caption for item in batch_source.images.items for caption in item.captions}
    counts = [family.count_tokens(caption) for caption in captions]
    long = [count for count in counts if count > CHUNK]
    if not long:
        return []
    noun = f"{len(long)} caption{'s' if len(long) > 1 else ''}"
    return [
        f"{noun} longer than {CHUNK} tokens (the longest has {max(long)}): encoded in chunks of"
        f" {CHUNK}, nothing is cut"
    ]


def _missing_token_warnings(config: TrainConfig, batch_source: BatchSource) -> list[str]:
    """Warn of placeholder tokens that no caption contains."""
    tokens = [each.token for each in config.embeddings.tokens]
    captions = [
        caption
        for item in batch_source.images.items
        if not item.is_prior
        for caption in (*item.captions, plain_caption(item, batch_source.concepts[item.concept]))
    ]
    missing = missing_tokens(captions, tokens)
    return [f'no caption contains "{token}", so its embedding is not trained' for token in missing]


def _digest(batch_source: BatchSource, lines: Iterable[str]) -> str:
    """Digest the training data. lines: of each image."""
    digest = hashlib.sha256()
    for line, item in zip(lines, batch_source.images.items, strict=True):
        captions = "\n".join(item.captions)
        digest.update(f"{line} {item.role} {item.concept}\n{captions}\n".encode())
    for concept in batch_source.concepts:
        settings = (
            concept.role,
            concept.repeats,
            concept.images,
            concept.loss_weight,
            concept.seed,
        )
        digest.update(f"{settings} {concept.captions} {concept.trigger}\n".encode())
    return digest.hexdigest()


def _progress(events: EventWriter, detail: str = "") -> Callable[[int, int], None]:
    """Return a callback that reports caching progress a few times a second."""
    last = -_SECONDS_PER_REPORT

    def report(done: int, total: int) -> None:
        nonlocal last
        if done == total or monotonic() - last >= _SECONDS_PER_REPORT:
            last = monotonic()
            events.write(Phase("caching", done, total, detail))

    return report


def _warnings(skipped: list[str], notes: list[str]) -> list[str]:
    warnings = [f"left out: {text}" for text in skipped[:_WARNED_IMAGES]]
    rest = len(skipped) - _WARNED_IMAGES
    if rest > 0:
        warnings.append(f"{rest} more images are left out; the summary names them all")
    return warnings + notes
