"""Image transforms: crop, flips, rotation and color changes, each identified by a number.

An image has one transform for each resolution of its concept and each variation of its
augmentation. A transform follows from the concept's seed, the image's name and the number.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.buckets import (
    NO_MAGNIFICATION,
    Bucket,
    CropGeometry,
    Magnification,
    crop_range,
    fixed_bucket,
    limited_bucket,
    nearest_bucket,
    scaled_size,
)
from onetrainer.dataset.items import Item
from onetrainer.seeds import derive, draws, shuffled

AUTOMATIC_VARIATIONS = 4
"""Number of cached variations if more than flips is random and no number is set."""

DIGITS = 4
"""Decimals of random amounts, so that they print the same everywhere."""


@dataclass(frozen=True, slots=True)
class ImageTransform:
    """What is done to an upright image, in this order.

    Attributes:
        geometry: scaling, including enlargement for rotation and crop jitter, and the crop.
        flip: flip horizontally.
        flip_vertical: flip vertically.
        angle: counter-clockwise rotation about the center of the crop, in degrees.
        brightness: colors in 0 to 1 are multiplied by 1 + brightness.
        contrast: distances from 0.5 are multiplied by 1 + contrast.
        saturation: distances from gray are multiplied by 1 + saturation.
        hue: rotation around the color wheel, in degrees.
    """

    geometry: CropGeometry
    flip: bool = False
    flip_vertical: bool = False
    angle: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    @property
    def bucket(self) -> Bucket:
        """The size of the result."""
        return self.geometry.bucket

    @property
    def is_recolored(self) -> bool:
        """Whether any color changes."""
        return bool(self.brightness or self.contrast or self.saturation or self.hue)

    def crop_key(self) -> tuple[str | int, ...]:
        """Return all values that decide which pixels are shown; the cache key of masks."""
        cut = self.geometry
        sizes = (cut.width, cut.height, cut.left, cut.top, cut.bucket.width, cut.bucket.height)
        return (*sizes, int(self.flip), int(self.flip_vertical), repr(self.angle))

    def key(self) -> tuple[str | int, ...]:
        """Return all values that decide the pixels; the cache key of images."""
        colors = (self.brightness, self.contrast, self.saturation, self.hue)
        return (*self.crop_key(), *map(repr, colors))


class _Numbers(NamedTuple):
    """Random numbers of one variation: fractions from 0 to 1, amounts from -1 to 1.

    All are sampled whatever is set, so that enabling one setting does not change the others.
    """

    zoom: float
    across: float
    down: float
    angle: float
    brightness: float
    contrast: float
    saturation: float
    hue: float


SHARES = 3
_NONE = _Numbers(*[0.0] * len(_Numbers._fields))
_WHOLE = _Numbers(*[1.0] * len(_Numbers._fields))


def variations(concept: ConceptSettings, *, is_cached: bool) -> int:
    """Return the number of variations that are cached for each image; 1 if nothing is random.

    Also 1 if latents are not cached: each repeat is then a variation of its own.
    """
    if not is_cached or not _is_varied(concept):
        return 1
    if concept.augmentation.variations:
        return concept.augmentation.variations
    return AUTOMATIC_VARIATIONS if _is_drawn(concept) else _sides(concept)


def transform_count(concept: ConceptSettings) -> int:
    """Return the number of cached transforms of each image: resolutions times variations."""
    return _resolution_count(concept) * variations(concept, is_cached=True)


def image_transform(item: Item, concept: ConceptSettings, number: int) -> ImageTransform:
    """Return the transform of an image by its number."""
    variation = number // _resolution_count(concept)
    return _build_transform(
        item,
        concept,
        bucket_at(item, concept, number),
        flips=_flips(item, concept, variation),
        numbers=_numbers(item, concept, variation),
    )


def plain_transform(item: Item, concept: ConceptSettings) -> ImageTransform:
    """Return the first transform without random changes, for validation and previews.

    Fixed changes stay, such as flips that are always applied.
    """
    always = concept.augmentation
    flips = (always.flip == "always", always.flip_vertical == "always")
    return _build_transform(item, concept, bucket_at(item, concept, 0), flips=flips, numbers=None)


def transform_number(item: Item, concept: ConceptSettings, repeat: int, *, is_cached: bool) -> int:
    """Return the number of the transform that an image has in a repeat.

    Resolutions alternate in an order of the image's own. Cached transforms are each used once in
    `transform_count` repeats; without a cache, every repeat is a variation of its own.
    """
    count = _resolution_count(concept)
    kept = variations(concept, is_cached=is_cached)
    if count == kept == 1 and (is_cached or not _is_varied(concept)):
        return 0
    rung = 0
    if count > 1:
        rung = shuffled(range(count), derive(concept.seed, "resolutions", item.name))[
            repeat % count
        ]
    if not is_cached:
        return rung + count * (repeat if _is_varied(concept) else 0)
    done, within = divmod(repeat, count * kept)
    order = shuffled(range(kept), derive(concept.seed, "variations", item.name, rung, done))
    return rung + count * order[within // count]


def bucket_at(item: Item, concept: ConceptSettings, number: int) -> Bucket:
    """Return the bucket of a transform without computing it."""
    settings, magnification = concept.buckets, NO_MAGNIFICATION
    if settings.upscale_limit:
        change = concept.augmentation
        magnification = Magnification(1 + change.crop_jitter, change.rotate)
    if settings.sizes:
        sizes = [Bucket(size.width, size.height) for size in settings.sizes]
        return fixed_bucket(
            item.width,
            item.height,
            sizes,
            limit=settings.upscale_limit,
            magnification=magnification,
        )
    resolution = concept.resolutions[number % len(concept.resolutions)]
    if not settings.upscale_limit:
        return nearest_bucket(item.width, item.height, resolution, concept.step)
    return limited_bucket(
        item.width,
        item.height,
        resolution,
        concept.step,
        limit=settings.upscale_limit,
        magnification=magnification,
    )


def size_conditioning(item: Item, transform: ImageTransform) -> tuple[float, ...]:
    """Return SDXL's size conditioning (time_ids) in pixels.

    Height and width of the original image, top and left of the crop in the scaled and flipped one,
    height and width of the crop. Source: Podell et al. 2023, arXiv:2307.01952, section 2.2.
    """
    cut, bucket = transform.geometry, transform.bucket
    whole = (item.height, item.width)
    return tuple(map(float, (*whole, cut.top, cut.left, bucket.height, bucket.width)))


def upscale_factor(item: Item, transform: ImageTransform) -> float:
    """Return the scale of an image; above 1 it is enlarged."""
    # The longer side is changed least by rounding to whole pixels.
    if item.width >= item.height:
        return transform.geometry.width / item.width
    return transform.geometry.height / item.height


def cropped_fraction(item: Item, transform: ImageTransform) -> float:
    """Return the fraction of an image's area that is cropped away, from 0 to 1."""
    cut, bucket = transform.geometry, transform.bucket
    return 1 - bucket.width * bucket.height / (cut.width * cut.height)


def _build_transform(
    item: Item,
    concept: ConceptSettings,
    bucket: Bucket,
    *,
    flips: tuple[bool, bool],
    numbers: _Numbers | None,
) -> ImageTransform:
    """Build a transform from random numbers; None for no random changes."""
    most = concept.augmentation
    shares = _WHOLE if most.fixed else numbers or _NONE
    magnification = Magnification(
        zoom=1 + _amount(most.crop_jitter, shares.zoom), angle=_amount(most.rotate, shares.angle)
    )
    wide, high = scaled_size(item.width, item.height, bucket, magnification)
    across = crop_range(wide, bucket, magnification.angle, is_across=True)
    down = crop_range(high, bucket, magnification.angle, is_across=False)
    if concept.buckets.crop == "focus":
        x, y = _focus(item, concept, flips)
        # No farther away than magnification permits, so that the point stays in the crop.
        aside = (numbers.across - 0.5, numbers.down - 0.5) if numbers else (0.0, 0.0)
        gained = magnification.zoom - 1
        left = _around(across, x * wide + (gained * aside[0] - 0.5) * bucket.width)
        top = _around(down, y * high + (gained * aside[1] - 0.5) * bucket.height)
    elif numbers and _is_anywhere(concept):
        left, top = _at_share(across, numbers.across), _at_share(down, numbers.down)
    else:
        left, top = sum(across) // 2, sum(down) // 2
    return ImageTransform(
        geometry=CropGeometry(wide, high, left, top, bucket),
        flip=flips[0],
        flip_vertical=flips[1],
        angle=magnification.angle,
        brightness=_amount(most.brightness, shares.brightness),
        contrast=_amount(most.contrast, shares.contrast),
        saturation=_amount(most.saturation, shares.saturation),
        hue=_amount(most.hue, shares.hue),
    )


def _amount(most: float, share: float) -> float:
    # Adding 0 turns -0 into 0, as the cache key differs.
    return round(most * share, DIGITS) + 0.0


def _at_share(joining_separator: tuple[int, int], share: float) -> int:
    first, last = joining_separator
    return first + math.floor(share * (last - first + 1))


def _around(joining_separator: tuple[int, int], place: float) -> int:
    """Return the allowed offset nearest to the wanted one."""
    first, last = joining_separator
    return min(max(math.floor(place + 0.5), first), last)


def _focus(item: Item, concept: ConceptSettings, flips: tuple[bool, bool]) -> tuple[float, float]:
    """Return the focus point in the flipped image, as fractions of its sides."""
    x, y = item.focus or (concept.buckets.focus_x, concept.buckets.focus_y)
    return (1 - x if flips[0] else x, 1 - y if flips[1] else y)


def _numbers(item: Item, concept: ConceptSettings, variation: int) -> _Numbers | None:
    if not _is_drawn(concept):
        return None
    random = draws(concept.seed, "view", item.name, variation)
    shares = [random.random() for _ in _Numbers._fields]
    # The others have a sign.
    return _Numbers(*shares[:SHARES], *(2 * share - 1 for share in shares[SHARES:]))


def _flips(item: Item, concept: ConceptSettings, variation: int) -> tuple[bool, bool]:
    """Return whether to flip horizontally and vertically.

    Sampled in permutations of all combinations: of two variations exactly one is flipped.
    """
    change = concept.augmentation
    flip, flip_vertical = change.flip == "always", change.flip_vertical == "always"
    count = _sides(concept)
    if count == 1:
        return flip, flip_vertical
    done, within = divmod(variation, count)
    side = shuffled(range(count), derive(concept.seed, "flip", item.name, done))[within]
    if change.flip == "random":
        side, flip = side // 2, bool(side % 2)
    if change.flip_vertical == "random":
        flip_vertical = bool(side % 2)
    return flip, flip_vertical


def _sides(concept: ConceptSettings) -> int:
    """Return the number of random flip combinations."""
    change = concept.augmentation
    return 1 << [change.flip, change.flip_vertical].count("random")


def _is_varied(concept: ConceptSettings) -> bool:
    """Return whether variations differ at all."""
    return _sides(concept) > 1 or _is_drawn(concept)


def _is_drawn(concept: ConceptSettings) -> bool:
    """Return whether more than flips is random."""
    change = concept.augmentation
    if concept.buckets.crop == "random":
        return True
    amounts = (
        *(change.rotate, change.crop_jitter, change.brightness),
        *(change.contrast, change.saturation, change.hue),
    )
    return not change.fixed and any(amounts)


def _is_anywhere(concept: ConceptSettings) -> bool:
    """Return whether the position of the crop is random."""
    change = concept.augmentation
    return concept.buckets.crop == "random" or bool(change.crop_jitter and not change.fixed)


def _resolution_count(concept: ConceptSettings) -> int:
    """Return the number of resolutions; fixed sizes replace all of them."""
    return 1 if concept.buckets.sizes else len(concept.resolutions)
