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
        crop, bucket = self.geometry, self.bucket
        sizes = (crop.width, crop.height, crop.left, crop.top, bucket.width, bucket.height)
        return (*sizes, int(self.flip), int(self.flip_vertical), repr(self.angle))

    def key(self) -> tuple[str | int, ...]:
        """Return all values that decide the pixels; the cache key of images."""
        colors = (self.brightness, self.contrast, self.saturation, self.hue)
        return (*self.crop_key(), *map(repr, colors))


class _RandomNumbers(NamedTuple):
    """Random numbers of one variation: fractions from 0 to 1, amounts from -1 to 1.

    All are sampled with any settings, so that enabling one setting does not change the others.
    """

    zoom: float
    across: float
    down: float
    angle: float
    brightness: float
    contrast: float
    saturation: float
    hue: float


_FRACTION_COUNT = 3
_NONE = _RandomNumbers(*[0.0] * len(_RandomNumbers._fields))
_WHOLE = _RandomNumbers(*[1.0] * len(_RandomNumbers._fields))


def variations(concept: ConceptSettings, *, is_cached: bool) -> int:
    """Return the number of variations that are cached for each image; 1 if nothing is random.

    Also 1 if latents are not cached: each repeat is then a variation of its own.
    """
    if not is_cached or not _has_variations(concept):
        return 1
    if concept.augmentation.variations:
        return concept.augmentation.variations
    return AUTOMATIC_VARIATIONS if _has_random_changes(concept) else _flip_combinations(concept)


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
        flips=_sample_flips(item, concept, variation),
        numbers=_sample_numbers(item, concept, variation),
    )


def plain_transform(item: Item, concept: ConceptSettings) -> ImageTransform:
    """Return the first transform without random changes, for validation and previews.

    Fixed changes stay, such as flips that are always applied.
    """
    augmentation = concept.augmentation
    flips = (augmentation.flip == "always", augmentation.flip_vertical == "always")
    return _build_transform(item, concept, bucket_at(item, concept, 0), flips=flips, numbers=None)


def transform_number(item: Item, concept: ConceptSettings, repeat: int, *, is_cached: bool) -> int:
    """Return the number of the transform that an image has in a repeat.

    Resolutions alternate in an order of the image's own. Cached transforms are each used once in
    `transform_count` repeats; without a cache, every repeat is a variation of its own.
    """
    count = _resolution_count(concept)
    variation_count = variations(concept, is_cached=is_cached)
    if count == variation_count == 1 and (is_cached or not _has_variations(concept)):
        return 0
    resolution_index = 0
    if count > 1:
        order = shuffled(range(count), derive(concept.seed, "resolutions", item.name))
        resolution_index = order[repeat % count]
    if not is_cached:
        return resolution_index + count * (repeat if _has_variations(concept) else 0)
    done, within = divmod(repeat, count * variation_count)
    seed = derive(concept.seed, "variations", item.name, resolution_index, done)
    order = shuffled(range(variation_count), seed)
    return resolution_index + count * order[within // count]


def bucket_at(item: Item, concept: ConceptSettings, number: int) -> Bucket:
    """Return the bucket of a transform without computing it."""
    settings, augmentation = concept.buckets, concept.augmentation
    limit, magnification = settings.upscale_limit, NO_MAGNIFICATION
    if limit:
        magnification = Magnification(1 + augmentation.crop_jitter, augmentation.rotate)
    if settings.sizes:
        sizes = [Bucket(size.width, size.height) for size in settings.sizes]
        return fixed_bucket(
            item.width, item.height, sizes, limit=limit, magnification=magnification
        )
    resolution = concept.resolutions[number % len(concept.resolutions)]
    shape = (item.width, item.height, resolution, concept.step)
    if not limit:
        return nearest_bucket(*shape)
    return limited_bucket(*shape, limit=limit, magnification=magnification)


def size_conditioning(item: Item, transform: ImageTransform) -> tuple[float, ...]:
    """Return the size conditioning (time_ids) of models that have one, in pixels.

    Height and width of the original image, top and left of the crop in the scaled and flipped one,
    height and width of the crop. Source: Podell et al. 2023, arXiv:2307.01952, section 2.2.
    """
    crop, bucket = transform.geometry, transform.bucket
    whole = (item.height, item.width)
    return tuple(map(float, (*whole, crop.top, crop.left, bucket.height, bucket.width)))


def upscale_factor(item: Item, transform: ImageTransform) -> float:
    """Return the scale of an image; above 1 it is enlarged."""
    # The longer side is changed least by rounding to whole pixels.
    if item.width >= item.height:
        return transform.geometry.width / item.width
    return transform.geometry.height / item.height


def cropped_fraction(item: Item, transform: ImageTransform) -> float:
    """Return the fraction of an image's area that is cropped away, from 0 to 1."""
    crop, bucket = transform.geometry, transform.bucket
    return 1 - bucket.width * bucket.height / (crop.width * crop.height)


def _build_transform(
    item: Item,
    concept: ConceptSettings,
    bucket: Bucket,
    *,
    flips: tuple[bool, bool],
    numbers: _RandomNumbers | None,
) -> ImageTransform:
    """Build a transform from random numbers; None for no random changes."""
    augmentation = concept.augmentation
    fractions = _WHOLE if augmentation.fixed else numbers or _NONE
    magnification = Magnification(
        zoom=1 + _amount(augmentation.crop_jitter, fractions.zoom),
        angle=_amount(augmentation.rotate, fractions.angle),
    )
    wide, high = scaled_size(item.width, item.height, bucket, magnification)
    across = crop_range(wide, bucket, magnification.angle, is_across=True)
    down = crop_range(high, bucket, magnification.angle, is_across=False)
    is_moved = bool(augmentation.crop_jitter and not augmentation.fixed)
    if concept.buckets.crop == "focus":
        x, y = item.focus or (concept.buckets.focus_x, concept.buckets.focus_y)
        x, y = 1 - x if flips[0] else x, 1 - y if flips[1] else y
        # No farther away than magnification permits, so that the point stays in the crop.
        offset = (numbers.across - 0.5, numbers.down - 0.5) if numbers else (0.0, 0.0)
        gained = magnification.zoom - 1
        left = _clamp(across, x * wide + (gained * offset[0] - 0.5) * bucket.width)
        top = _clamp(down, y * high + (gained * offset[1] - 0.5) * bucket.height)
    elif numbers and (concept.buckets.crop == "random" or is_moved):
        left, top = (
            first + math.floor(fraction * (last - first + 1))
            for (first, last), fraction in ((across, numbers.across), (down, numbers.down))
        )
    else:
        left, top = sum(across) // 2, sum(down) // 2
    return ImageTransform(
        geometry=CropGeometry(wide, high, left, top, bucket),
        flip=flips[0],
        flip_vertical=flips[1],
        angle=magnification.angle,
        brightness=_amount(augmentation.brightness, fractions.brightness),
        contrast=_amount(augmentation.contrast, fractions.contrast),
        saturation=_amount(augmentation.saturation, fractions.saturation),
        hue=_amount(augmentation.hue, fractions.hue),
    )


def _amount(strength: float, fraction: float) -> float:
    # Adding 0 turns -0 into 0, as the cache key differs.
    return round(strength * fraction, DIGITS) + 0.0


def _clamp(bounds: tuple[int, int], place: float) -> int:
    """Return the allowed offset nearest to the wanted one."""
    first, last = bounds
    return min(max(math.floor(place + 0.5), first), last)


def _sample_numbers(item: Item, concept: ConceptSettings, variation: int) -> _RandomNumbers | None:
    if not _has_random_changes(concept):
        return None
    random = draws(concept.seed, "view", item.name, variation)
    fractions = [random.random() for _ in _RandomNumbers._fields]
    # The others have a sign.
    return _RandomNumbers(
        *fractions[:_FRACTION_COUNT],
        *(2 * fraction - 1 for fraction in fractions[_FRACTION_COUNT:]),
    )


def _sample_flips(item: Item, concept: ConceptSettings, variation: int) -> tuple[bool, bool]:
    """Return whether to flip horizontally and vertically.

    Sampled in permutations of all combinations: of two variations exactly one is flipped.
    """
    augmentation = concept.augmentation
    flip, flip_vertical = augmentation.flip == "always", augmentation.flip_vertical == "always"
    count = _flip_combinations(concept)
    if count == 1:
        return flip, flip_vertical
    done, within = divmod(variation, count)
    side = shuffled(range(count), derive(concept.seed, "flip", item.name, done))[within]
    if augmentation.flip == "random":
        side, flip = side // 2, bool(side % 2)
    if augmentation.flip_vertical == "random":
        flip_vertical = bool(side % 2)
    return flip, flip_vertical


def _flip_combinations(concept: ConceptSettings) -> int:
    """Return the number of random flip combinations."""
    augmentation = concept.augmentation
    return 1 << [augmentation.flip, augmentation.flip_vertical].count("random")


def _has_variations(concept: ConceptSettings) -> bool:
    """Return whether variations differ at all."""
    return _flip_combinations(concept) > 1 or _has_random_changes(concept)


def _has_random_changes(concept: ConceptSettings) -> bool:
    """Return whether more than flips is random."""
    augmentation = concept.augmentation
    if concept.buckets.crop == "random":
        return True
    amounts = (
        *(augmentation.rotate, augmentation.crop_jitter, augmentation.brightness),
        *(augmentation.contrast, augmentation.saturation, augmentation.hue),
    )
    return not augmentation.fixed and any(amounts)


def _resolution_count(concept: ConceptSettings) -> int:
    """Return the number of resolutions; fixed sizes replace all of them."""
    return 1 if concept.buckets.sizes else len(concept.resolutions)
