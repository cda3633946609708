"""Images of a run: listed, encoded, and batched step by step."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic, time

from modules.assembly.validation_set import validation_images
from modules.data.batches import Batches, BatchSource
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
from modules.data.shards import Store
from modules.evaluation.validation import ValidationImages
from modules.families.prompts.prompts import CHUNK
from modules.interfaces import Family
from modules.world.world import World, alone
from onetrainer.cache.store import prune
from onetrainer.captions.placeholder_tokens import missing_tokens
from onetrainer.captions.sample_prompts import all_shots
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import BatchPlan, batch_plan
from onetrainer.dataset.caption_caching import caches_captions, captions_of_run
from onetrainer.dataset.caption_sampling import CaptionSampler, plain_caption
from onetrainer.dataset.dataset import Dataset, read_dataset, uses_images_only
from onetrainer.dataset.items import Item, counted_images
from onetrainer.dataset.near_duplicates import AnalysisCancelled, near_duplicate_groups
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.families.registry import family_spec
from onetrainer.images.image_index import ImageIndex
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase, Warned

VALIDATION = "validation images"
"""Details of `Phase` events while caching."""
CAPTIONS = "captions"
COMPARING = "looking for similar images"
READING = "reading the image folders"
GB = 10**9
_SECONDS_PER_REPORT = 0.1
_WARNED_IMAGES = 20


@dataclass(frozen=True)
class Images:
    """The run's training and validation images, encoded.

    Attributes:
        skipped: Messages about images that cannot be used.
        digest: Of the encoded training data in its order; equal for two runs with the same data.
        files, captions: Of the image files with their names, and of the captions as they are
            written: what a person may have changed since, however settings use it.
        validation: None without validation.
        new: Number of images that were not completely in the cache before.
    """

    batches: Batches
    skipped: list[str]
    digest: str
    files: str
    captions: str
    validation: ValidationImages | None = None
    new: int = 0


def _digest_of(entries: Iterable[tuple[str, object]]) -> str:
    """Return a digest of entries by name, in whatever order."""
    digest = hashlib.sha256()
    for entry in sorted(entries):
        digest.update(f"{entry!r}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Caching:
    """Where images are encoded to, and by whom.

    Attributes:
        folder: Of the cache.
        should_stop: Returns whether the run is to end.
        world: The processes that share the images out.
    """

    folder: Path
    events: EventWriter
    should_stop: Callable[[], bool]
    world: World = field(default_factory=alone)


def digests_for(config: TrainConfig, family: Family) -> EncoderDigests:
    """Return digests of the encoders that encode the run's data.

    Call before anything is set to train: a trained decoder may get another dtype, and its encoder
    would then count as another model's.
    """
    return encoder_digests(family, with_text=caches_captions(config))


def prepare_images(
    config: TrainConfig,
    family: Family,
    caching: Caching,
    *,
    digests: EncoderDigests,
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
    store, events = Store(caching.folder), caching.events
    start_time, start_clock = time(), monotonic()
    try:
        dataset, trained, measured = _read_and_encode(
            config, family, caching, store=store, digests=digests
        )
        plan = batch_plan(config, dataset, kept=trained.usable)
        texts = None
        if caches_captions(config):
            plain = measured.items if measured else ()
            steps = range(first_step, config.training.total_steps)
            texts = encode_captions(
                family,
                captions_of_run(dataset.concepts, trained.items, plain, plan, steps),
                store=store,
                digests=digests,
                progress=progress_report(events, CAPTIONS),
                should_stop=caching.should_stop,
                world=caching.world,
            )
        # If the clock was set back in the meantime, entries used now carry an earlier date.
        start_time = min(start_time, time() - (monotonic() - start_clock))
        if caching.world.is_first:
            _limit_cache(config, store.folder, since=start_time, events=events)
        images = _images_of(config, dataset, plan, trained, measured, texts)
        for text in _warnings(config, family, dataset, images, measured):
            if text not in past_warnings:
                events.write(Warned(text))
    except BaseException:
        store.close()
        raise
    return images


def _images_of(
    config: TrainConfig,
    dataset: Dataset,
    plan: BatchPlan,
    trained: EncodedImages,
    measured: EncodedImages | None,
    texts: EncodedTexts | None,
) -> Images:
    """Return the batches of encoded images. measured: the validation images."""
    batch_source = BatchSource(
        trained,
        texts,
        dataset.concepts,
        CaptionSampler(dataset.concepts),
        config.data.latents,
    )
    batches = Batches(
        batch_source,
        plan,
        with_pixels=isinstance(config.objective, Reconstruction),
    )
    validation = None
    if measured is not None:

        def plain(item: Item, _repeat: int) -> str:
            return plain_caption(item, dataset.concept_of(item))

        source = replace(batch_source, images=measured, caption_of=plain)
        validation = validation_images(config, dataset, source)
    names = [f"{item.concept}/{item.name}" for item in trained.items]
    skipped = [*dataset.skipped, *trained.skipped, *(measured.skipped if measured else ())]
    return Images(
        batches,
        list(map(str, skipped)),
        digest=_digest(batch_source, trained.digest_lines()),
        files=_digest_of(zip(names, trained.file_digests(), strict=True)),
        captions=_digest_of(zip(names, (item.captions for item in trained.items), strict=True)),
        validation=validation,
        new=trained.new + (measured.new if measured else 0),
    )


def sizes_of(config: TrainConfig, images: Images) -> set[tuple[int, int]]:
    """Return every image size that the model computes with: width and height in pixels."""
    validation = images.validation.sizes if images.validation else ()
    samples = [(shot.prompt.width, shot.prompt.height) for shot in all_shots(config)]
    return images.batches.sizes() | {*validation, *samples}


def read_images(
    config: TrainConfig, memory: ImageIndex, events: EventWriter, should_stop: Callable[[], bool]
) -> Dataset:
    """Return the dataset of a run.

    Near duplicates are grouped only if the validation split depends on them.

    Raises:
        CachingStopped: If asked to stop in the meantime.
    """

    def group_similar(items: Sequence[Item]) -> Sequence[int]:
        progress = progress_report(events, COMPARING)
        try:
            return near_duplicate_groups(items, memory, progress, should_stop=should_stop)
        except AnalysisCancelled as error:
            raise CachingStopped from error

    reading = progress_report(events, READING)

    def watch(done: int, total: int) -> None:
        if should_stop():
            raise CachingStopped
        reading(done, total)

    is_compared = config.validation.use and config.validation.keep_similar
    grouping = group_similar if is_compared else None
    return read_dataset(config, headers=memory, group_similar=grouping, watch=watch)


def cache_folder(config: TrainConfig, run: Path) -> Path:
    """Return the folder of the run's cache. run: Its folder."""
    return Path(config.data.cache_folder or run.parent / "cache")


def _read_and_encode(
    config: TrainConfig,
    family: Family,
    caching: Caching,
    *,
    store: Store,
    digests: EncoderDigests,
) -> tuple[Dataset, EncodedImages, EncodedImages | None]:
    """Return the dataset, its encoded training images, and the validation images if any."""
    with closing(ImageIndex(store.folder)) as memory:
        events, should_stop = caching.events, caching.should_stop
        with caching.world.rank_0_first():  # the others find what it has measured in the index
            dataset = read_images(config, memory, events, should_stop)
            memory.save()
        encode = partial(
            encode_images,
            family,
            store=store,
            file_digests=memory,
            digests=digests,
            options=replace(options_of(config), world=caching.world),
            should_stop=should_stop,
        )
        transforms = TransformTable(dataset.items, dataset.concepts, is_plain=False)
        trained, measured = encode(transforms, progress=progress_report(events)), None
        if dataset.validation is not None:
            transforms = TransformTable(dataset.validation, dataset.concepts, is_plain=True)
            measured = encode(transforms, progress=progress_report(events, VALIDATION))
        # The index learns of damaged ones, so that they are known before the next run.
        failed = {each.path for each in (*trained.skipped, *(measured.skipped if measured else ()))}
        every = (*dataset.items, *(dataset.validation or ()))
        PixelFacts(memory).examine(item for item in every if item.path in failed)
        return dataset, trained, measured


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


def _limit_cache(config: TrainConfig, folder: Path, *, since: float, events: EventWriter) -> None:
    """Remove the entries unused for longest if the cache is larger than its limit."""
    if not config.data.cache_limit:
        return
    report = prune(folder, limit_bytes=round(config.data.cache_limit * GB), since=since)
    if report.freed_bytes:
        freed = f"{report.freed_bytes / GB:.1f} GB of older encodings removed"
        events.write(Phase("caching", detail=freed))


def _warnings(
    config: TrainConfig,
    family: Family,
    dataset: Dataset,
    images: Images,
    measured: EncodedImages | None,
) -> Iterator[str]:
    """Yield the warnings about images, captions and the cache."""
    for text in images.skipped[:_WARNED_IMAGES]:
        yield f"left out: {text}"
    if (rest := len(images.skipped) - _WARNED_IMAGES) > 0:
        yield f"{rest} more images are left out; the summary names them all"
    trained = images.batches.batch_source.images
    yield from (*dataset.notes, *trained.warnings, *(measured.warnings if measured else ()))
    yield from damage_notes(trained.store)
    if uses_images_only(config):
        return
    if dataset.uncaptioned:
        yield f"{counted_images(dataset.uncaptioned, len(dataset.items))} no caption"
    captions = {caption for item in trained.items for caption in item.captions}
    long = [count for count in map(family.count_tokens, captions) if count > CHUNK]
    if long:
        noun = f"{len(long)} caption{'s' if len(long) > 1 else ''}"
        yield (
            f"{noun} longer than {CHUNK} tokens (the longest has {max(long)}): encoded in chunks of"
            f" {CHUNK}, nothing is cut"
        )
    # Placeholder tokens may come from the trigger words or the template.
    texts = [
        caption
        for item in images.batches.trained
        for caption in (*item.captions, plain_caption(item, dataset.concept_of(item)))
    ]
    for token in missing_tokens(texts, [each.token for each in config.embeddings.tokens]):
        yield f'no caption contains "{token}", so its embedding is not trained'


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


def progress_report(events: EventWriter, detail: str = "") -> Callable[[int, int], None]:
    """Return a callback that reports caching progress a few times a second."""
    last = -_SECONDS_PER_REPORT

    def report(done: int, total: int) -> None:
        nonlocal last
        if done == total or monotonic() - last >= _SECONDS_PER_REPORT:
            last = monotonic()
            events.write(Phase("caching", done, total, detail))

    return report
