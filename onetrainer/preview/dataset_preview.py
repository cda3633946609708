"""Preview of a run's dataset, from image headers only."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from heapq import nlargest
from itertools import islice
from pathlib import Path

from onetrainer.cache.run_entries import CachePlan, plan_cache
from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.base.amount import Amount
from onetrainer.config.data.concept import Role
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.dataset.batch_plan import BatchPlan, all_buckets, batch_plan, concept_slices
from onetrainer.dataset.buckets import Bucket, crop_geometry
from onetrainer.dataset.caption_sampling import item_captions_vary, sample_caption
from onetrainer.dataset.dataset import Dataset, uses_images_only
from onetrainer.dataset.items import HeaderCache, Item, Skipped, is_uncaptioned
from onetrainer.dataset.near_duplicates import AnalysisCancelled, Progress
from onetrainer.dataset.pixel_facts import PixelFacts, read_known_dataset
from onetrainer.dataset.transforms import ImageTransform, cropped_fraction, upscale_factor
from onetrainer.errors import UserError
from onetrainer.rewards.prompts import prompt_plan
from onetrainer.schedules.amounts import estimated, known_steps

MIN_UPSCALING = 1.05
"""Lowest upscaling that is reported: less is invisible."""
MIN_CROPPED = 0.1
"""Lowest cropped fraction of the area that is reported. Buckets are closer to an image's aspect
ratio than that, unless it is longer than all of them.
"""
NAMED = 10
"""Number of affected images that are named."""
EXAMPLES = 4
EXAMPLE_REPEATS = 3
"""Number of captions of an example, if they vary."""
EXACT_EPOCHS = 200
"""Number of epochs to compute if they differ from each other; further ones are extrapolated."""
EXACT_IMAGES = 400_000
"""Limit of images in those epochs; each takes some 13 µs if resolutions alternate."""


@dataclass(frozen=True)
class ConceptPreview:
    """One folder; images are for training or priors, per_epoch is a mean.

    loss_weight: Factor of the loss.
    """

    name: str
    role: Role
    folder: Path
    images: int
    validation: int
    per_epoch: float
    loss_weight: float


@dataclass(frozen=True)
class BucketPreview:
    """One bucket: number of images, and how many images and batches the first epoch has of it.

    batches: a step that begins with an image of it may divide one of them.
    """

    bucket: Bucket
    images: int
    images_used: int
    batches: int


@dataclass(frozen=True)
class AffectedImage:
    """An affected image; amount is the upscaling factor or the cropped fraction."""

    path: Path
    amount: float


@dataclass(frozen=True)
class AffectedImages:
    """The number of affected images, and the most affected ones."""

    count: int
    most: tuple[AffectedImage, ...]


@dataclass(frozen=True)
class CaptionExample:
    """The captions of an image in successive repeats; one if they never vary."""

    path: Path
    samples: tuple[str, ...]


@dataclass(frozen=True)
class DatasetPreview:
    """What a run does with its images.

    Attributes:
        images: number of training and prior images.
        validation: number of validation images; None without validation.
        batches: the steps on images.
        steps: length of the run; None if it is in minutes.
        known_steps: steps of lengths and intervals in epochs or images, by their text.
        full_step: images of a full step.
        steps_per_epoch: steps of the first epoch.
        small_steps: steps of the first epoch with fewer images; each image counts the same in them.
        images_per_epoch: images of the first epoch, counting repeats.
        epochs: epochs of the run, approximate if they differ; 0 if its length is in minutes.
        images_used: images of the run, counting repeats, approximate if epochs differ; the same.
        uncaptioned: number of images without a caption.
        skipped: unusable files and the reasons.
        notes: messages about the folders.
        unexamined: number of images that nobody has decoded yet, so that the run may leave out
            more of them.
        validation_may_change: whether the run may therefore choose other validation images, as
            near-duplicates are not known.
        without_caption: the first images without a caption.
    """

    dataset: Dataset = field(repr=False)
    batches: BatchPlan = field(repr=False)
    concepts: tuple[ConceptPreview, ...]
    buckets: tuple[BucketPreview, ...]
    images: int
    validation: int | None
    steps: int | None
    known_steps: Mapping[str, int]
    full_step: int
    steps_per_epoch: int
    small_steps: int
    images_per_epoch: int
    epochs: float
    images_used: int
    enlarged: AffectedImages
    cropped: AffectedImages
    captions: tuple[CaptionExample, ...]
    uncaptioned: int
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    cache: CachePlan
    without_caption: tuple[Path, ...] = ()
    unexamined: int = 0
    validation_may_change: bool = False

    def images_of(self, bucket: Bucket) -> list[tuple[Item, int]]:
        """Return the images of a bucket, each with the number of its first transform there."""
        items = self.dataset.items
        buckets_by_item = all_buckets(items, self.dataset.concepts)
        return [
            (item, item_buckets.index(bucket))
            for item, item_buckets in zip(items, buckets_by_item, strict=True)
            if bucket in item_buckets
        ]


def preview_dataset(
    config: TrainConfig,
    facts: PixelFacts | None = None,
    *,
    headers: HeaderCache | None = None,
    should_stop: Callable[[], bool] | None = None,
    examining: Progress | None = None,
) -> DatasetPreview | None:
    """Preview the dataset of a config; None if it has no images or no folder is chosen.

    facts: What is known of the images; None reads headers only. headers: Where these are kept; None
    for where the facts are. The run may leave out others, and
    choose other validation images, as long as some are unknown. examining: Decodes these first, and
    is called with (images done, total). Comparing 100,000 images takes half a minute, decoding them
    several.

    Raises:
        UserError: as `read_dataset`, or all images are damaged.
        AnalysisCancelled: should_stop returned True.
    """
    is_chosen = any(concept.role == "train" for concept in concepts_of(config))
    if not is_chosen or not uses_images(config):
        return None
    facts = facts or PixelFacts()

    def watch(*_: int) -> None:
        if should_stop and should_stop():
            raise AnalysisCancelled

    headers = headers or facts.headers
    read = partial(
        read_known_dataset, config, facts, headers=headers, watch=watch, should_stop=should_stop
    )
    dataset = read()
    if examining and dataset.unexamined:
        every = (*dataset.items, *(dataset.validation or ()))
        facts.examine(every, examining, should_stop=should_stop)
        dataset = read()
    return _preview(config, dataset)


def known_steps_of(config: TrainConfig, preview: DatasetPreview | None) -> Mapping[str, int]:
    """Return the steps of amounts of a config, see `known_steps`; {} if they are not known."""
    if preview is not None:
        return preview.known_steps
    if not isinstance(config.objective, AlignProp | Slider):
        return {}
    try:
        return known_steps(config, prompt_plan(config))
    except UserError:
        return {}  # the prompts may come later


def epochs_of(batches: BatchPlan, steps: int) -> float:
    """Return the epochs of a number of steps; extrapolated if they differ and are many."""
    exact = _exact_epochs(batches, steps)
    if exact:
        return exact * steps / batches.first_step(exact)
    epoch = batches.epoch_of(steps)
    return epoch + (steps - batches.first_step(epoch)) / batches.steps_in(epoch)


def _images_of(batches: BatchPlan, steps: int) -> int:
    """Return the images used in a number of steps, counting repeats; extrapolated the same way."""
    exact = _exact_epochs(batches, steps)
    if exact:
        return batches.images_before_epoch(exact) * steps // batches.first_step(exact)
    return batches.images_before_step(steps)


def _exact_epochs(batches: BatchPlan, steps: int) -> int:
    """Return how many epochs to compute if a run has more that differ; 0 to compute all."""
    if batches.period:
        return 0
    epoch_images = batches.images_in(batches.epoch_of(0))
    epochs = min(EXACT_EPOCHS, max(2, EXACT_IMAGES // epoch_images))
    return epochs if 0 < batches.first_step(epochs) <= steps else 0


def _preview(config: TrainConfig, dataset: Dataset) -> DatasetPreview:
    """Preview a dataset, which has training images."""
    slices = concept_slices(dataset, is_cached=config.data.cache_latents)
    batches = batch_plan(config, dataset)
    section = config.objective
    is_rewarded = isinstance(section, AlignProp)
    known = known_steps_of(config, None) if is_rewarded else known_steps(config, batches)
    length = config.training.steps
    config = estimated(config, known)
    training = config.training
    is_timed = isinstance(length, Amount) and length.unit == "minutes"
    # In reward training, images are trained on in some of the steps.
    fraction = section.keep.denoising_fraction if isinstance(section, AlignProp) else 1.0
    steps = 0 if is_timed else int(training.total_steps * fraction)
    first = batches.epoch_of(0)
    at_once = training.batch_size
    counts = batches.bucket_counts(first)
    per_epoch = {dataset.items[one.first].concept: one.per_epoch for one in slices}
    bucket_images, enlarged, cropped = _affected_images(dataset)
    uncaptioned = (
        item.path for item in dataset.items if is_uncaptioned(item, dataset.concept_of(item))
    )
    # Near-duplicates only matter if validation images are split off from training images.
    roles = {dataset.concept_of(item).role for item in dataset.validation or ()}
    is_searched = config.validation.keep_similar and "train" in roles
    return DatasetPreview(
        dataset=dataset,
        batches=batches,
        concepts=_concepts(dataset, per_epoch),
        buckets=tuple(
            BucketPreview(
                bucket, bucket_images[bucket], counts[bucket], -(-counts[bucket] // at_once)
            )
            for bucket in sorted(bucket_images, key=lambda one: (one.width / one.height, one.width))
        ),
        images=len(dataset.items),
        validation=None if dataset.validation is None else len(dataset.validation),
        steps=None if is_timed else training.total_steps,
        known_steps=known,
        full_step=at_once * training.accumulation,
        steps_per_epoch=batches.steps_per_epoch,
        small_steps=batches.small_steps_in(first),
        images_per_epoch=counts.total(),
        epochs=epochs_of(batches, steps),
        images_used=_images_of(batches, steps),
        enlarged=enlarged,
        cropped=cropped,
        captions=() if uses_images_only(config) else caption_examples(dataset),
        uncaptioned=dataset.uncaptioned,
        skipped=dataset.skipped,
        notes=dataset.notes,
        cache=plan_cache(config, dataset, batches),
        without_caption=tuple(islice(uncaptioned, NAMED)),
        unexamined=dataset.unexamined,
        validation_may_change=dataset.unexamined > 0 and is_searched,
    )


def caption_examples(
    dataset: Dataset, *, count: int = EXAMPLES, repeats: int = EXAMPLE_REPEATS
) -> tuple[CaptionExample, ...]:
    """Return sampled captions of a few images from all over the dataset."""
    items = [item for item in dataset.items if not item.is_prior] or list(dataset.items)
    indices = dict.fromkeys(round(n * (len(items) - 1) / max(1, count - 1)) for n in range(count))
    examples = []
    for item in (items[index] for index in indices):
        concept = dataset.concepts[item.concept]
        count = repeats if item_captions_vary(item, concept) else 1
        samples = tuple(sample_caption(item, concept, repeat) for repeat in range(count))
        examples.append(CaptionExample(item.path, samples))
    return tuple(examples)


def _concepts(dataset: Dataset, per_epoch: dict[int, Fraction]) -> tuple[ConceptPreview, ...]:
    trained = Counter(item.concept for item in dataset.items)
    validation = Counter(item.concept for item in dataset.validation or ())
    return tuple(
        ConceptPreview(
            name=concept.name,
            role=concept.role,
            folder=concept.folder,
            images=trained[number],
            validation=validation[number],
            per_epoch=float(per_epoch.get(number, 0)),
            loss_weight=concept.loss_weight,
        )
        for number, concept in enumerate(dataset.concepts)
    )


def _affected_images(dataset: Dataset) -> tuple[Counter[Bucket], AffectedImages, AffectedImages]:
    """Count images by bucket, and measure how much they are upscaled and cropped.

    Of an image the worst of its buckets counts; random transforms, which are intended, do not.
    """
    bucket_images: Counter[Bucket] = Counter()
    factors, fractions = [], []
    buckets_by_item = all_buckets(dataset.items, dataset.concepts)
    for item, item_buckets in zip(dataset.items, buckets_by_item, strict=True):
        bucket_images.update(buckets := set(item_buckets))
        transforms = [
            ImageTransform(crop_geometry(item.width, item.height, bucket)) for bucket in buckets
        ]
        factors.append((max(upscale_factor(item, one) for one in transforms), item.path))
        fractions.append((max(cropped_fraction(item, one) for one in transforms), item.path))
    return bucket_images, _affected(factors, MIN_UPSCALING), _affected(fractions, MIN_CROPPED)


def _affected(amounts: Sequence[tuple[float, Path]], least: float) -> AffectedImages:
    affected = [one for one in amounts if one[0] >= least]
    most = nlargest(NAMED, affected, key=lambda one: one[0])
    return AffectedImages(
        len(affected), tuple(AffectedImage(path, amount) for amount, path in most)
    )
