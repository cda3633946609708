"""Batches of encoded images and captions: of single microbatches, and of each step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from modules.data.encoded_items import EncodedImages, EncodedTexts, TransformKey
from modules.data.loader import Reading
from modules.data.prompts import padded
from modules.interfaces import Batch, LatentMoments
from modules.memory.to_device import to_device
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.batch_plan import BatchPlan, StepPlan, all_buckets
from onetrainer.dataset.items import Item


@dataclass(frozen=True)
class BatchSource:
    """What batches are made from.

    texts: None if captions are encoded in every step. caption_of: returns the caption of an image
    in its n-th repeat. latents: whether they are sampled from the posterior, or its mean is used.
    """

    images: EncodedImages
    texts: EncodedTexts | None
    concepts: tuple[ConceptSettings, ...]
    caption_of: Callable[[Item, int], str]
    latents: Literal["sample", "mean"] = "sample"


def read_batch(
    batch_source: BatchSource, plan: StepPlan, microbatch: int, *, with_pixels: bool = False
) -> Callable[[], Batch]:
    """Read a step's microbatch in any thread, and return a function that makes the batch of it.

    That function is fast unless latents are not cached: then it encodes, on the VAE's device.
    Otherwise the batch is on the CPU; it has conditioning if the source's captions are encoded, and
    the images' pixels if wanted. Raises UserError if an image or the cache has changed.
    """
    images = batch_source.images
    offset = sum(len(each) for each in plan.microbatches[:microbatch])
    repeats = plan.microbatches[microbatch]
    keys = [(repeat.item, repeat.transform) for repeat in repeats]
    items = [images.items[repeat.item] for repeat in repeats]
    captions = tuple(
        batch_source.caption_of(images.items[repeat.item], repeat.repeat) for repeat in plan.images
    )
    own = captions[offset : offset + len(repeats)]
    texts, conditioning, empty = batch_source.texts, None, None
    if texts is not None:
        conditioning, empty = padded(texts.conditioning, own, among=captions)
    pixels = None
    if with_pixels or not images.is_cached:
        pixels = torch.cat([images.pixels(*key) for key in keys])
    cached = images.gather(keys) if images.is_cached else None
    masked_images = [images.masked_image(*key) for key in keys] if images.blanks else []
    mask = _masks([images.mask(*key) for key in keys])
    time_ids = images.transforms.time_ids(keys)
    weights = tuple(batch_source.concepts[item.concept].loss_weight for item in items)

    def finish() -> Batch:
        moments = _moments(images, cached, pixels, latents=batch_source.latents)
        return Batch(
            moments=moments,
            captions=own,
            step_captions=captions,
            conditioning=conditioning,
            time_ids=time_ids,
            positions=tuple(range(offset, offset + len(repeats))),
            weight=plan.weight,
            pixels=pixels if with_pixels else None,
            mask=mask,
            is_prior=_flags([item.is_prior for item in items]),
            own_prediction=_flags([item.role == "own_prediction" for item in items]),
            loss_weights=weights if any(weight != 1 for weight in weights) else (),
            masked=_masked_input(images, keys, masked_images, device=moments.mean.device),
            empty=empty,
        )

    return finish


class Batches:
    """The microbatches of each step, a function of the step alone."""

    def __init__(
        self, batch_source: BatchSource, plan: BatchPlan, *, with_pixels: bool = False
    ) -> None:
        self.batch_source = batch_source
        self.plan = plan
        self._with_pixels = with_pixels

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step, from 0."""
        return self.plan.epoch_of(step)

    def images_before_step(self, step: int) -> int:
        """Return the number of images used before a step, counting repeats."""
        return self.plan.images_before_step(step)

    def names_at(self, step: int) -> Mapping[str, Sequence[str]]:
        """Return the paths of a step's "images", in order."""
        items = self.batch_source.images.items
        return {"images": [str(items[each.item].path) for each in self.plan.at(step).images]}

    @property
    def trained(self) -> tuple[Item, ...]:
        """The images without those for prior preservation."""
        return tuple(item for item in self.batch_source.images.items if not item.is_prior)

    def sizes(self) -> set[tuple[int, int]]:
        """Return every width and height of the images' buckets, in pixels."""
        every = all_buckets(self.batch_source.images.items, self.batch_source.concepts)
        return {(bucket.width, bucket.height) for buckets in every for bucket in buckets}

    def readings_at(self, step: int) -> list[Reading]:
        """Return how to read each microbatch of a step in any thread."""
        plan = self.plan.at(step)
        return [partial(self._read, plan, number) for number in range(len(plan.microbatches))]

    def at(self, step: int) -> Iterator[Batch]:
        """Read the microbatches of a step, one after the other.

        Raises UserError if an image or the cache has changed.
        """
        plan = self.plan.at(step)
        for number in range(len(plan.microbatches)):
            yield read_batch(self.batch_source, plan, number, with_pixels=self._with_pixels)()

    def close(self) -> None:
        """End this run's use of the cache."""
        self.batch_source.images.store.close()

    def _read(self, plan: StepPlan, number: int) -> Batch | Callable[[], Batch]:
        finish = read_batch(self.batch_source, plan, number, with_pixels=self._with_pixels)
        return finish() if self.batch_source.images.is_cached else finish


def _moments(
    images: EncodedImages,
    cached: LatentMoments | None,
    pixels: Tensor | None,
    *,
    latents: Literal["sample", "mean"],
) -> LatentMoments:
    """Return cached moments, or encode pixels, one image at a time as for the cache."""
    if cached is None:
        assert pixels is not None
        encoded = [images.encode(each[None]) for each in pixels]
        cached = LatentMoments(
            mean=torch.cat([each.mean for each in encoded]),
            std=torch.cat([each.std for each in encoded]),
        )
    if latents == "sample":
        return cached
    return LatentMoments(cached.mean, torch.zeros_like(cached.std))


def _masked_input(
    images: EncodedImages,
    keys: Sequence[TransformKey],
    masked_images: Sequence[Tensor | None],
    *,
    device: torch.device,
) -> Tensor | None:
    """Return masks and masked images' latents, (B, 5, h, w); None means all is masked."""
    inputs = []
    for key, masked_image in zip(keys, masked_images, strict=False):
        mean = masked_image
        if masked_image is not None and not images.is_cached:
            mean = images.encode(masked_image).mean
        inputs.append(to_device(images.masked_input(*key, mean), device))
    return torch.cat(inputs) if inputs else None


def _masks(masks: Sequence[Tensor | None]) -> Tensor | None:
    """Concatenate masks, (B, 1, h, w), with 1 for images without one; None if none has one."""
    first = next((mask for mask in masks if mask is not None), None)
    if first is None:
        return None
    return torch.cat([torch.ones_like(first) if mask is None else mask for mask in masks])


def _flags(flags: Sequence[bool]) -> tuple[bool, ...]:
    """Return the flags; empty if none is set."""
    return tuple(flags) if any(flags) else ()
