"""What training will do with the pictures: the sizes they are brought to, and how each is shown.

No Tk. Everything here may be called in a thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from ui.background.background_query import CancelToken, QueryCancelledError

if TYPE_CHECKING:
    from onetrainer.concepts.concepts import ConceptSettings
    from onetrainer.dataset.buckets import Bucket
    from onetrainer.dataset.items import Item
    from onetrainer.dataset.transforms import ImageTransform
    from onetrainer.preview.dataset_preview import DatasetPreview

DEPENDS_ON = ("data", "model", "validation", "training", "objective", "method", "output.folder")
"""What the answer depends on."""

REPEATS = 8
"""How many showings of a picture are looked ahead."""

_NOTABLE_CUT = 0.1
_NEARLY = 1.02
_ASKED_EVERY = 1000


class TransformedImage(NamedTuple):
    """A picture in one of its views. item: its place in the data set."""

    item: int
    number: int


class Repeat(NamedTuple):
    """One showing of a picture. turn: how often it was shown before."""

    repeat: int
    number: int
    caption: str


@dataclass(frozen=True)
class BucketSummary:
    """A size that pictures are brought to, and which. steps: how many an epoch has at it."""

    bucket: "Bucket"
    images: tuple[TransformedImage, ...]
    shown: int
    steps: int


@dataclass(frozen=True)
class PreviewData:
    """What will happen."""

    preview: "DatasetPreview"
    buckets: tuple[BucketSummary, ...]
    is_cached: bool

    def item(self, image: TransformedImage) -> "Item":
        """The picture of a showing."""
        return self.preview.dataset.items[image.item]

    def concept(self, image: TransformedImage) -> "ConceptSettings":
        """What counts for it."""
        return self.preview.dataset.concept_of(self.item(image))

    def view(self, image: TransformedImage) -> "ImageTransform":
        """What is done to it."""
        from onetrainer.dataset.transforms import image_transform

        return image_transform(self.item(image), self.concept(image), image.number)

    @property
    def has_captions(self) -> bool:
        """Whether captions play any part."""
        return bool(self.preview.captions)

    def repeats(self, image: TransformedImage) -> tuple[Repeat, ...]:
        """The first times that a picture is shown; one alone where all are the same."""
        from onetrainer.dataset.caption_sampling import sample_caption
        from onetrainer.dataset.transforms import transform_number

        item, concept = self.item(image), self.concept(image)
        summaries = []
        for repeat in range(REPEATS):
            caption = sample_caption(item, concept, repeat) if self.has_captions else ""
            number = transform_number(item, concept, repeat, is_cached=self.is_cached)
            summaries.append(Repeat(repeat, number, caption))
        return tuple(summaries if len({each[1:] for each in summaries}) > 1 else summaries[:1])


def compute_preview(config: TrainConfig, token: CancelToken) -> PreviewData:
    """What a run with a config will do with its pictures. Reads headers alone.

    Raises UserError where there is nothing to learn, or a folder cannot be read, and GivenUpError
    if nobody waits any more.
    """
    # Loaded late: a window that only opens needs nothing of it.
    from onetrainer.cache.run_entries import open_image_index
    from onetrainer.config.train import uses_images
    from onetrainer.dataset.batch_plan import buckets_of
    from onetrainer.dataset.near_duplicates import AnalysisCancelled
    from onetrainer.preview.dataset_preview import preview_dataset

    try:
        with open_image_index(config) as memory:
            preview = preview_dataset(
                config, headers=memory, image_index=memory, should_stop=token.is_cancelled
            )
    except AnalysisCancelled as error:
        raise QueryCancelledError from error
    if preview is None:
        if not uses_images(config):
            raise UserError("this run learns from rewards alone: it cuts and caches no pictures")
        raise UserError("no folder of pictures is chosen yet")
    by_size: dict[Bucket, list[TransformedImage]] = {}
    for place, item in enumerate(preview.dataset.items):
        if place % _ASKED_EVERY == 0:
            token.raise_if_cancelled()
        buckets = buckets_of(item, preview.dataset.concept_of(item))
        for bucket in dict.fromkeys(buckets):
            by_size.setdefault(bucket, []).append(TransformedImage(place, buckets.index(bucket)))
    summaries = (
        BucketSummary(
            bucket.bucket, tuple(by_size.get(bucket.bucket, ())), bucket.shown, bucket.steps
        )
        for bucket in preview.buckets
    )
    return PreviewData(preview, tuple(summaries), config.data.cache_latents)


def format_bucket(bucket: "Bucket") -> str:
    """A size: "512 × 768"."""
    return f"{bucket.width} × {bucket.height}"


def format_count(count: int, noun: str) -> str:
    """So many of something: "1 picture", "2,000 steps"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def bucket_summary(size: BucketSummary) -> str:
    """How much of training a size is."""
    words = format_count(len(size.images), "picture")
    often = f", {size.shown:,} shown" if size.shown != len(size.images) else ""
    return f"{words}{often} in {format_count(size.steps, 'step')} of an epoch"


def repeat_label(repeat: Repeat, repeats: Sequence[Repeat]) -> str:
    """When a showing comes: "Every time", "1st time"."""
    if len(repeats) == 1:
        return "Every time"
    number = repeat.repeat + 1
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') } time"


def caption_line(caption: str) -> str:
    """A caption on one line."""
    return " ".join(caption.split()) or "(the empty prompt)"


def transform_summary(item: "Item", view: "ImageTransform") -> tuple[str, bool]:
    """What is done to a picture, and whether that is much."""
    from onetrainer.dataset.transforms import cropped_fraction, upscale_factor

    factor, share = upscale_factor(item, view), cropped_fraction(item, view)
    parts = [f"{item.width} × {item.height}"]
    if factor > _NEARLY:
        parts.append(f"enlarged {factor:.2g} times")
    elif factor < 1 / _NEARLY:
        parts.append(f"made {factor:.0%} as wide" if factor >= 0.01 else "made much smaller")
    if share >= 0.005:
        parts.append(f"{share:.0%} cut off")
    parts += [*["mirrored"] * view.flip, *["upside down"] * view.flip_vertical]
    parts += [f"turned by {view.angle:.1f}°"] if view.angle else []
    parts += ["recolored"] if view.is_recolored else []
    return "  ·  ".join(parts), factor > _NEARLY or share >= _NOTABLE_CUT
