"""Preview of the data set: the buckets, and how each image is transformed. Safe in threads."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from ui.background.background_query import CancelToken, QueryCancelledError

if TYPE_CHECKING:
    from onetrainer.concepts.concepts import ConceptSettings
    from onetrainer.dataset.buckets import Bucket
    from onetrainer.dataset.items import Item
    from onetrainer.dataset.pixel_facts import PixelFacts
    from onetrainer.dataset.transforms import ImageTransform
    from onetrainer.preview.dataset_preview import DatasetPreview

DEPENDS_ON = (
    *("data", "model", "validation", "training", "objective", "method"),
    *("schedule", "sampling.every", "output"),
)
"""Settings that the preview depends on: those of the images, and lengths and intervals."""

REPEATS = 8
"""Number of repeats of an image that are previewed."""

_NOTABLE_CUT = 0.1
_NEARLY = 1.02
_CHECK_CANCEL_EVERY = 1000
_THREADS = 2  # that examine images, so that the window and a run keep the others


class TransformedImage(NamedTuple):
    """An image with one of its transforms. item: Index of the image in `Dataset.items`."""

    item: int
    number: int


class Repeat(NamedTuple):
    """One repeat of an image. repeat: how often it was shown before."""

    repeat: int
    number: int
    caption: str


class BucketImages:
    """The images of a bucket, of which there may be very many."""

    def __init__(self) -> None:
        self._items, self._numbers = array("I"), array("I")

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> TransformedImage:
        return TransformedImage(self._items[index], self._numbers[index])

    def append(self, image: TransformedImage) -> None:
        """Add an image."""
        self._items.append(image.item)
        self._numbers.append(image.number)


class BucketSummary(NamedTuple):
    """A bucket and its images. shown: with repeats; batches: in an epoch."""

    bucket: "Bucket"
    images: BucketImages
    shown: int
    batches: int


class PreviewData(NamedTuple):
    """Preview of a run's data set."""

    preview: "DatasetPreview"
    buckets: tuple[BucketSummary, ...]
    is_cached: bool

    def item(self, image: TransformedImage) -> "Item":
        """Return the data set item of an image."""
        return self.preview.dataset.items[image.item]

    def concept(self, image: TransformedImage) -> "ConceptSettings":
        """Return the concept settings of an image."""
        return self.preview.dataset.concept_of(self.item(image))

    def transform(self, image: TransformedImage) -> "ImageTransform":
        """Return the transform of an image."""
        from onetrainer.dataset.transforms import image_transform

        return image_transform(self.item(image), self.concept(image), image.number)

    @property
    def has_captions(self) -> bool:
        """Whether captions are used."""
        return bool(self.preview.captions)

    def repeats(self, image: TransformedImage) -> tuple[Repeat, ...]:
        """Return the first repeats of an image; only one if all are the same."""
        from onetrainer.dataset.caption_sampling import sample_caption
        from onetrainer.dataset.transforms import transform_number

        item, concept = self.item(image), self.concept(image)
        found = []
        for repeat in range(REPEATS):
            caption = sample_caption(item, concept, repeat) if self.has_captions else ""
            number = transform_number(item, concept, repeat, is_cached=self.is_cached)
            found.append(Repeat(repeat, number, caption))
        return tuple(found if len({each[1:] for each in found}) > 1 else found[:1])


def compute_preview(config: TrainConfig, token: CancelToken[PreviewData]) -> PreviewData:
    """Compute the preview of a config's data set: at once from what is known, then exactly.

    Images that nobody has decoded yet are examined after the first answer.

    Raises:
        UserError: If there is nothing to train on, or a folder cannot be read.
        QueryCancelledError: If the query was canceled.
    """
    with _pixel_facts(config) as facts:
        data = _known_preview(config, facts, token)
        if data.preview.unexamined:
            token.answer(data)
            dataset, stop = data.preview.dataset, token.is_cancelled
            every = (*dataset.items, *(dataset.validation or ()))
            facts.examine(every, token.progress, should_stop=stop, threads=_THREADS)
            data = _known_preview(config, facts, token)
    return data


def known_steps_now(config: TrainConfig, token: CancelToken[Any]) -> Mapping[str, int]:
    """Return the steps of a config's lengths in epochs or images; {} if they are not known.

    Raises:
        QueryCancelledError: If the query was canceled.
    """
    from onetrainer.preview.dataset_preview import known_steps_of, preview_dataset

    try:
        with _pixel_facts(config) as facts:
            preview = preview_dataset(config, facts, should_stop=token.is_cancelled)
    except UserError:
        preview = None  # the images may come later
    return known_steps_of(config, preview)


@contextmanager
def _pixel_facts(config: TrainConfig) -> "Iterator[PixelFacts]":
    """Open what is known of the images, for work that may be canceled."""
    # Imported late to keep the start of the window fast.
    from onetrainer.cache.run_entries import open_image_index
    from onetrainer.dataset.near_duplicates import AnalysisCancelled
    from onetrainer.dataset.pixel_facts import PixelFacts
    from onetrainer.images.image_index import recent_facts

    try:
        with open_image_index(config) as index:
            # Nothing is written before there is a folder of runs: its name may be half typed.
            yield PixelFacts(index or recent_facts())
    except AnalysisCancelled as error:
        raise QueryCancelledError from error


def _known_preview(
    config: TrainConfig, facts: "PixelFacts", token: CancelToken[PreviewData]
) -> PreviewData:
    from onetrainer.config.train import uses_images
    from onetrainer.dataset.batch_plan import all_buckets
    from onetrainer.preview.dataset_preview import preview_dataset

    preview = preview_dataset(config, facts, should_stop=token.is_cancelled)
    if preview is None:
        if not uses_images(config):
            raise UserError("this run trains on prompts alone and uses no images")
        raise UserError("no image folder is selected")
    preview = _compact(config, preview)
    by_size = {one.bucket: BucketImages() for one in preview.buckets}
    every = all_buckets(preview.dataset.items, preview.dataset.concepts)
    for index, buckets in enumerate(every):
        if index % _CHECK_CANCEL_EVERY == 0:
            token.raise_if_cancelled()
        for bucket in dict.fromkeys(buckets):
            by_size[bucket].append(TransformedImage(index, buckets.index(bucket)))
    summaries = (
        BucketSummary(one.bucket, by_size[one.bucket], one.images_used, one.batches)
        for one in preview.buckets
    )
    return PreviewData(preview, tuple(summaries), config.data.cache_latents)


def _compact(config: TrainConfig, preview: "DatasetPreview") -> "DatasetPreview":
    """Return a preview whose items take little memory, as the window keeps them."""
    from onetrainer.dataset.batch_plan import batch_plan
    from onetrainer.dataset.item_table import ItemTable

    dataset = preview.dataset
    chosen = None if dataset.validation is None else ItemTable(dataset.validation)
    dataset = replace(dataset, items=ItemTable(dataset.items), validation=chosen)
    return replace(preview, dataset=dataset, batches=batch_plan(config, dataset))


def format_bucket(bucket: "Bucket") -> str:
    """Format a bucket: "512 × 768"."""
    return f"{bucket.width} × {bucket.height}"


def bucket_summary(size: BucketSummary) -> str:
    """Return how many images a bucket has, and in how many batches of an epoch."""
    images = counted(len(size.images), "image")
    repeats = f", {size.shown:,} shown" if size.shown != len(size.images) else ""
    return f"{images}{repeats} in {counted(size.batches, 'batch', 'batches')} of an epoch"


def repeat_label(repeat: Repeat, repeats: Sequence[Repeat]) -> str:
    """Return the label of a repeat: "Every time", "1st time"."""
    if len(repeats) == 1:
        return "Every time"
    number = repeat.repeat + 1
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') } time"


def caption_line(caption: str) -> str:
    """Return a caption on one line."""
    return " ".join(caption.split()) or "(the empty prompt)"


def transform_summary(item: "Item", transform: "ImageTransform") -> tuple[str, bool]:
    """Return how an image is transformed, and whether that is notable."""
    from onetrainer.dataset.transforms import cropped_fraction, upscale_factor

    factor, fraction = upscale_factor(item, transform), cropped_fraction(item, transform)
    parts = [f"{item.width} × {item.height}"]
    if factor > _NEARLY:
        parts.append(f"enlarged {factor:.2g} times")
    elif factor < 1 / _NEARLY:
        parts.append(f"scaled to {factor:.0%}" if factor >= 0.01 else "scaled down to under 1%")
    if fraction >= 0.005:
        parts.append(f"{fraction:.0%} cropped")
    parts += [*["flipped"] * transform.flip, *["flipped vertically"] * transform.flip_vertical]
    parts += [f"rotated by {transform.angle:.1f}°"] if transform.angle else []
    parts += ["recolored"] if transform.is_recolored else []
    return "  ·  ".join(parts), factor > _NEARLY or fraction >= _NOTABLE_CUT
