"""Types of cache entries of images: the files that determine them, and how these are decoded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from torch import Tensor
from torch.nn import functional

from modules.data.images import decode_conditioning, decode_pixels
from modules.data.masks import CELL, decode_inpaint_mask, decode_mask
from modules.data.shards import Kind, entry_key
from onetrainer.config.data.data import Conditioning
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.images.image_file import ImageError

FORMAT = 2
"""Part of every key: incremented when images or captions are encoded differently."""

LATENTS, MASK, INPAINT_MASK, MASKED_IMAGE = "latents", "mask", "hole", "seen"
"""Names in keys: an image's latents; its training mask; the mask that an inpainting model fills;
the latents of the image that such a model gets, masked or a separate one."""

Files = Sequence[BinaryIO]
Read = TypeVar("Read")


@dataclass(frozen=True)
class EntryType:
    """A type of cache entry of images.

    files: returns which of an item's files determine it; () if the item has no such entry.
    decode: decodes these files by a transform: (3, 8h, 8w) in [-1, 1] if the VAE encodes it,
    otherwise (1, h, w) in [0, 1]; float32. Raises ImageError. reads_mask: whether the mask is one
    of the files.
    """

    name: str
    kind: Kind
    is_encoded: bool
    files: Callable[[Item], tuple[Path, ...]]
    decode: Callable[[Item, ImageTransform, Files], Tensor]
    reads_mask: bool = True

    def key(
        self, item: Item, transform: ImageTransform, digests: Sequence[str], encoder: str
    ) -> bytes:
        """Return the key of an entry, made of all that determines it.

        Args:
            item: The image.
            transform: Applied to it.
            digests: Of the files' bytes.
            encoder: Identifies the VAE.
        """
        # An image's transparency, and a mask file of the same bytes, are different.
        is_alpha = self.reads_mask and item.mask == item.path
        source = (self.name, FORMAT, "alpha" if is_alpha else "file", *digests)
        if not self.is_encoded:
            return entry_key(*source, *transform.crop_key())
        return entry_key(*source, *transform.key(), encoder)


def entry_types(conditioning: Conditioning) -> tuple[EntryType, ...]:
    """Return the entry types of a dataset. conditioning: the input of inpainting models."""
    types = [
        EntryType(MASK, "masks", is_encoded=False, files=_mask, decode=_decode_mask),
        EntryType(LATENTS, "latents", True, _image, _decode_image, reads_mask=False),
    ]
    if conditioning == "masks":
        types += [
            EntryType(INPAINT_MASK, "masks", False, _mask, _decode_inpaint_mask),
            EntryType(MASKED_IMAGE, "latents", True, _image_and_mask, _decode_masked_image),
        ]
    if conditioning == "files":
        types += [
            EntryType(INPAINT_MASK, "masks", False, _conditioning_mask, _decode_inpaint_mask),
            EntryType(
                MASKED_IMAGE, "latents", True, _conditioning, _decode_conditioning, reads_mask=False
            ),
        ]
    return tuple(types)


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


def _image(item: Item) -> tuple[Path, ...]:
    return (item.path,)


def _mask(item: Item) -> tuple[Path, ...]:
    return () if item.mask is None else (item.mask,)


def _image_and_mask(item: Item) -> tuple[Path, ...]:
    return () if item.mask is None else (item.path, item.mask)


def _conditioning(item: Item) -> tuple[Path, ...]:
    return () if item.conditioning is None else (item.conditioning,)


def _conditioning_mask(item: Item) -> tuple[Path, ...]:
    return _mask(item) if item.conditioning else ()


def _decode_image(item: Item, transform: ImageTransform, files: Files) -> Tensor:
    return decode_pixels(item, transform, files[0])


def _decode_mask(item: Item, transform: ImageTransform, files: Files) -> Tensor:
    return decode_mask(item, transform, files[0])[0]


def _decode_inpaint_mask(item: Item, transform: ImageTransform, files: Files) -> Tensor:
    """Downscale like diffusers' training: to the nearest pixel of each cell, not their average."""
    mask = decode_inpaint_mask(item, transform, files[0])
    return functional.interpolate(mask, scale_factor=1 / CELL)[0]


def _decode_masked_image(item: Item, transform: ImageTransform, files: Files) -> Tensor:
    """Fill the masked area with middle gray, as diffusers' inpainting models are trained."""
    image, mask = files
    hole = decode_inpaint_mask(item, transform, mask)[0]
    return decode_pixels(item, transform, image) * (1 - hole)


def _decode_conditioning(item: Item, transform: ImageTransform, files: Files) -> Tensor:
    return decode_conditioning(item, transform, files[0])
