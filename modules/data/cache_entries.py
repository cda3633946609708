"""Types of cache entries of images: which files they come from, and how those are decoded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from modules.data.images import decode_conditioning, decode_pixels
from modules.data.masks import decode_input_mask, decode_mask, decode_masked_image
from modules.data.shards import Kind, entry_key
from onetrainer.config.data.data import Conditioning
from onetrainer.dataset.items import Item
from onetrainer.dataset.transformed_image import was_decoded_smaller
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.families.spec import FamilySpec
from onetrainer.images.image_file import ImageError

FORMAT = 2
"""Part of every key: incremented when images or captions are encoded differently."""

LATENTS, MASK, INPUT_MASK, MASKED_IMAGE = "latents", "mask", "hole", "seen"
"""Names in keys: an image's latents; its training mask; the mask that a model is given to fill; the
latents of the image that it is given with it, masked or a separate one. As existing caches have
them: other names would encode everything again."""

_CELL_WITHOUT_KEY = 8
"""Pixels per value of those masks whose keys do not say it, as every mask's once did not."""

Read = TypeVar("Read")


@dataclass(frozen=True)
class EntryType:
    """A type of cache entry of images.

    sources: an item's files that determine it; it has no such entry if one is None. decode: decodes
    these files by a transform: (3, H, W) in pixels in [-1, 1] if the VAE encodes it, otherwise
    (1, h, w) in [0, 1]; float32. Raises ImageError. cell: pixels per value along each side.
    reads_mask: whether the mask is one of the files.
    """

    name: str
    kind: Kind
    is_encoded: bool
    sources: Callable[[Item], tuple[Path | None, ...]]
    decode: Callable[..., Tensor]
    cell: int = 1
    reads_mask: bool = True

    def files(self, item: Item) -> tuple[Path, ...]:
        """Return the files that determine an item's entry; () if it has none."""
        sources = self.sources(item)
        return () if None in sources else tuple(path for path in sources if path)

    def key(
        self, item: Item, transform: ImageTransform, digests: Sequence[str], encoder: str
    ) -> bytes:
        """Return the key of an entry, made of all that determines it.

        digests: of the files' bytes. encoder: identifies the VAE.
        """
        # An image's transparency, and a mask file of the same bytes, are different.
        is_alpha = self.reads_mask and item.mask == item.path
        source = (self.name, FORMAT, "alpha" if is_alpha else "file", *digests)
        if not self.is_encoded:
            cell = () if self.cell == _CELL_WITHOUT_KEY else (self.cell,)
            return entry_key(*source, *transform.crop_key(), *cell)
        # Pixels of earlier versions were others; the size of a conditioning image is unknown here.
        is_other = self.name == MASKED_IMAGE or was_decoded_smaller(item, transform)
        return entry_key(*source, *transform.key(), *(("whole",) if is_other else ()), encoder)


def entry_types(conditioning: Conditioning, family: FamilySpec) -> tuple[EntryType, ...]:
    """Return the entry types of a dataset.

    conditioning: what a model that is given a masked image gets.
    """
    cell = family.latent_side
    trained = (
        _mask_type(MASK, decode_mask, lambda item: item.mask, cell),
        EntryType(
            LATENTS, "latents", True, lambda item: (item.path,), decode_pixels, reads_mask=False
        ),
    )
    if conditioning == "blank":
        return trained
    is_masked = conditioning == "masks"
    return (
        *trained,
        _mask_type(
            INPUT_MASK,
            decode_input_mask,
            lambda item: item.mask if is_masked or item.conditioning else None,
            cell,
        ),
        EntryType(
            MASKED_IMAGE,
            "latents",
            True,
            lambda item: (item.path, item.mask) if is_masked else (item.conditioning,),
            decode_masked_image if is_masked else decode_conditioning,
            reads_mask=is_masked,
        ),
    )


def _mask_type(
    name: str, decode: Callable[..., Tensor], mask: Callable[[Item], Path | None], cell: int
) -> EntryType:
    return EntryType(
        name, "masks", False, lambda item: (mask(item),), partial(decode, cell=cell), cell
    )


def content(item: Item, path: Path, read: Callable[[Path], Read]) -> Read:
    """Read one of an item's files by `read`. Raises ImageError about the item."""
    try:
        return read(path)
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        if path != item.path:
            role = "mask" if path == item.mask else "conditioning image"
            reason = f'its {role} "{path.name}" {reason}'
        raise ImageError(item.path, reason) from error
