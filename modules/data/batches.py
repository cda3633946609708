"""Batches of encoded images and captions for a step's microbatches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from modules.data.encoded_items import EncodedImages, EncodedTexts, TransformKey
from modules.data.texts import concatenate, pad
from modules.interfaces import Batch, Conditioning, LatentMoments
from modules.memory.to_device import to_device
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.batch_plan import StepPlan
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import size_conditioning


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
    conditioning = _conditioning(batch_source.texts, own, captions)
    pixels = None
    if with_pixels or not images.is_cached:
        pixels = torch.cat([images.pixels(*key) for key in keys])
    cached = images.gather(keys) if images.is_cached else None
    masked_images = [images.masked_image(*key) for key in keys] if images.blanks else []
    mask = _masks([images.mask(*key) for key in keys])
    transforms = [images.transforms.transform(*key) for key in keys]
    sizes = map(size_conditioning, items, transforms)
    time_ids = torch.tensor(list(sizes))
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
            masked=_inpainting_input(images, keys, masked_images, device=moments.mean.device),
        )

    return finish


def _conditioning(
    texts: EncodedTexts | None, own: Sequence[str], captions: Sequence[str]
) -> Conditioning | None:
    """Return the conditioning of some captions, padded to the longest of the whole step.

    captions: those of the step, since padding must not depend on microbatch size.
    """
    if texts is None:
        return None
    tokens = max(texts.tokens(caption) for caption in captions)
    empty = texts.conditioning("")
    return concatenate([pad(texts.conditioning(caption), empty, tokens) for caption in own])


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


def _inpainting_input(
    images: EncodedImages,
    keys: Sequence[TransformKey],
    masked_images: Sequence[Tensor | None],
    *,
    device: torch.device,
) -> Tensor | None:
    """Return the extra inputs of inpainting models, (B, 5, h, w); None means all is masked."""
    inputs = []
    for key, masked_image in zip(keys, masked_images, strict=False):
        mean = masked_image
        if masked_image is not None and not images.is_cached:
            mean = images.encode(masked_image).mean
        inputs.append(to_device(images.inpainting_input(*key, mean), device))
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
