"""Checks of a single image: size, detail, captions, mask."""

from collections.abc import Iterator

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.items import (
    Item,
)
from onetrainer.dataset.transforms import plain_transform, upscale_factor
from onetrainer.images.detail import Detail
from onetrainer.images.findings import Finding

MAX_UPSCALING = 1.25
"""Upscaling above which an image has less than two thirds of the pixels."""

MIN_DETAIL = 0.5
"""Finest detail at the trained size below which an image is blurred. Measured: sharp images have 1,
images blurred by 0.7 pixels at least 0.53, by 1.5 pixels at most 0.47.
"""

TRACE = 13.0
"""Traces above which an image was upscaled. Measured: at most 12 in images that were not."""

MIN_STRONG_DETAIL = 0.8
"""Upscaling does not matter if the visible detail is finer than this."""


def size_findings(item: Item, concept: ConceptSettings) -> Iterator[Finding]:
    """Yield a finding if an image is too small for the size it is trained at."""
    transform = plain_transform(item, concept)
    factor, bucket = upscale_factor(item, transform), transform.bucket
    if factor > MAX_UPSCALING:
        yield Finding(
            "too-small",
            item.path,
            f"{item.width} × {item.height} pixels, enlarged {factor:.1f} times to"
            f" {bucket.width} × {bucket.height}",
            "Use a larger version, or train it at a smaller size (data.buckets.upscale_limit)",
        )


def detail_findings(item: Item, concept: ConceptSettings, detail: Detail) -> Iterator[Finding]:
    """Yield a finding if an image has less detail than the size it is trained at can show."""
    # For an image that is scaled down, only the remaining detail matters.
    factor = min(1.0, upscale_factor(item, plain_transform(item, concept)))
    width, height = item.width, item.height
    blocks = detail.block > 1 and 1 / (detail.block * factor) <= MIN_DETAIL
    if blocks or (detail.trace >= TRACE and detail.strong < MIN_STRONG_DETAIL * factor):
        fraction = 1 / detail.block if blocks else detail.strong
        small = f"{round(width * fraction)} × {round(height * fraction)}"
        yield Finding(
            "upscaled",
            item.path,
            f"{width} × {height} pixels, but its detail would fit into about {small}",
            "Use the original image at its own size",
        )
    elif detail.finest < MIN_DETAIL * factor:
        percent = 100 * detail.finest / factor
        yield Finding(
            "blurred",
            item.path,
            f"nothing in it is sharp: its finest detail is {percent:.0f} % as fine as its training"
            " size can show",
            "Use a sharper image or remove it, unless softness is intended",
        )
