"""The pictures and captions of a step's microbatch, as a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from modules.data.encoded_items import EncodedImages, EncodedTexts
from modules.data.texts import joined, padded
from modules.interfaces import Batch, Conditioning, LatentMoments
from modules.memory.to_device import to_device
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.batch_plan import ImageRepeat, StepPlan
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import size_conditioning


@dataclass(frozen=True)
class Shelf:
    """What batches are taken from.

    texts: None where captions are encoded in every step. caption_of: what is said of a picture in
    its n-th showing. latents: whether a latent is drawn from a picture's posterior, or its mean.
    """

    images: EncodedImages
    texts: EncodedTexts | None
    concepts: tuple[ConceptSettings, ...]
    caption_of: Callable[[Item, int], str]
    latents: Literal["sample", "mean"] = "sample"


def load_batch(
    shelf: Shelf, plan: StepPlan, microbatch: int, *, with_pixels: bool = False
) -> Batch:
    """The pictures and captions of a step's microbatch, on the CPU.

    Conditioning is None if the shelf's captions are not encoded. with_pixels: also the pictures
    themselves, decoded anew. UserError if a picture has changed, or the cache.
    """
    return read_batch(shelf, plan, microbatch, with_pixels=with_pixels)()


def read_batch(
    shelf: Shelf, plan: StepPlan, microbatch: int, *, with_pixels: bool = False
) -> Callable[[], Batch]:
    """As `load_batch`, in two parts: reading, in any thread; what is given makes the batch of it.

    The second part takes no time unless latents are not kept: then it encodes, where the VAE is.
    """
    images = shelf.images
    offset = sum(len(shown) for shown in plan.microbatches[:microbatch])
    shown = plan.microbatches[microbatch]
    items = [images.items[one.item] for one in shown]
    captions = tuple(shelf.caption_of(images.items[one.item], one.repeat) for one in plan.images)
    own = captions[offset : offset + len(shown)]
    conditioning = _conditioning(shelf.texts, own, captions)
    pixels = None
    if with_pixels or not images.is_kept:
        pixels = torch.cat([images.pixels(one.item, one.transform) for one in shown])
    kept = images.gathered([(one.item, one.transform) for one in shown]) if images.is_kept else None
    seen = [images.seen(one.item, one.transform) for one in shown] if images.blanks else []
    mask = _masks([images.mask(one.item, one.transform) for one in shown])
    time_ids = torch.tensor([_frame(images, one) for one in shown])
    weights = tuple(shelf.concepts[item.concept].loss_weight for item in items)

    def finish() -> Batch:
        moments = _moments(images, kept, pixels, latents=shelf.latents)
        return Batch(
            moments=moments,
            captions=own,
            step_captions=captions,
            conditioning=conditioning,
            time_ids=time_ids,
            positions=tuple(range(offset, offset + len(shown))),
            weight=plan.weight,
            pixels=pixels if with_pixels else None,
            mask=mask,
            is_prior=_some([item.is_prior for item in items]),
            own_prediction=_some([item.role == "own_prediction" for item in items]),
            loss_weights=weights if any(weight != 1 for weight in weights) else (),
            masked=_masked(images, shown, seen, device=moments.mean.device),
        )

    return finish


def _conditioning(
    texts: EncodedTexts | None, own: Sequence[str], captions: Sequence[str]
) -> Conditioning | None:
    """Some captions encoded; all: those of the whole step, as padding must not depend on how it
    is cut.
    """
    if texts is None:
        return None
    tokens = max(texts.tokens(caption) for caption in captions)
    empty = texts.conditioning("")
    return joined([padded(texts.conditioning(caption), empty, tokens) for caption in own])


def _moments(
    images: EncodedImages,
    kept: LatentMoments | None,
    pixels: Tensor | None,
    *,
    latents: Literal["sample", "mean"],
) -> LatentMoments:
    """The moments that were kept, or those of pixels. One at a time, as where they are kept."""
    if kept is None:
        assert pixels is not None
        every = [images.encode(one[None]) for one in pixels]
        kept = LatentMoments(
            mean=torch.cat([one.mean for one in every]), std=torch.cat([one.std for one in every])
        )
    return kept if latents == "sample" else LatentMoments(kept.mean, torch.zeros_like(kept.std))


def _masked(
    images: EncodedImages,
    shown: Sequence[ImageRepeat],
    seen: Sequence[Tensor | None],
    *,
    device: torch.device,
) -> Tensor | None:
    """What an inpainting model sees of each, (B, 5, h, w); None where all is to be painted."""
    found = []
    for one, part in zip(shown, seen, strict=False):
        mean = part if part is None or images.is_kept else images.encode(part).mean
        found.append(to_device(images.joined(one.item, one.transform, mean), device))
    return torch.cat(found) if found else None


def _frame(images: EncodedImages, shown: ImageRepeat) -> tuple[float, ...]:
    return size_conditioning(
        images.items[shown.item], images.views.view(shown.item, shown.transform)
    )


def _masks(masks: Sequence[Tensor | None]) -> Tensor | None:
    """(B, 1, h, w), 1 all over a picture without a mask; None if none has one."""
    one = next((mask for mask in masks if mask is not None), None)
    if one is None:
        return None
    return torch.cat([torch.ones_like(one) if mask is None else mask for mask in masks])


def _some(flags: Sequence[bool]) -> tuple[bool, ...]:
    """Which pictures are meant; empty if none is."""
    return tuple(flags) if any(flags) else ()
