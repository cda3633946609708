"""What is kept of a picture: its parts, the files that decide each, and their pixels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from torch import Tensor
from torch.nn import functional

from modules.data.images import decode_conditioning, decode_pixels
from modules.data.masks import CELL, decode_hole, decode_mask
from modules.data.shards import Kind, entry_key
from onetrainer.config.data.data import Conditioning
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.images.image_file import ImageError

FORMAT = 2
"""Part of every key: raised when the same picture or caption is to be encoded otherwise."""

LATENTS, MASK, HOLE, SEEN = "latents", "mask", "hole", "seen"
"""What the VAE makes of a picture; where it counts; what of it an inpainting model is to paint;
what the VAE makes of what such a model sees of it, or instead of it."""

Files = Sequence[BinaryIO]
Read = TypeVar("Read")


@dataclass(frozen=True)
class Part:
    """One of the things that are kept of a picture.

    files: which of an item's files decide it; () of an item that has none of it. decode: what is
    in a view of these files: (3, 8h, 8w) in [-1, 1] where the VAE is to encode it, otherwise
    (1, h, w) in [0, 1]; float32. Raises PictureError. reads_mask: whether the mask is
    one of the files.
    """

    name: str
    kind: Kind
    is_encoded: bool
    files: Callable[[Item], tuple[Path, ...]]
    decode: Callable[[Item, ImageTransform, Files], Tensor]
    reads_mask: bool = True

    def key(self, item: Item, view: ImageTransform, digests: Sequence[str], encoder: str) -> bytes:
        """What tells its entry from others, made of all that decides it.

        digests: of the files' bytes. encoder: what tells the VAE from others.
        """
        # A picture's transparency, and a mask that is a file of the same bytes, are two things.
        is_alpha = self.reads_mask and item.mask == item.path
        source = (self.name, FORMAT, "alpha" if is_alpha else "file", *digests)
        if not self.is_encoded:
            return entry_key(*source, *view.crop_key())
        return entry_key(*source, *view.key(), encoder)


def components_of(conditioning: Conditioning) -> tuple[Part, ...]:
    """The parts of a data set's pictures. conditioning: what inpainting models see."""
    parts = [
        Part(MASK, "masks", is_encoded=False, files=_mask, decode=_decode_mask),
        Part(LATENTS, "latents", True, _image, _decode_image, reads_mask=False),
    ]
    if conditioning == "masks":
        parts += [
            Part(HOLE, "masks", is_encoded=False, files=_mask, decode=_decode_hole),
            Part(SEEN, "latents", True, _image_and_mask, _decode_rest),
        ]
    if conditioning == "files":
        parts += [
            Part(HOLE, "masks", is_encoded=False, files=_mask_beside, decode=_decode_hole),
            Part(SEEN, "latents", True, _beside, _decode_beside, reads_mask=False),
        ]
    return tuple(parts)


def content(item: Item, path: Path, read: Callable[[Path], Read]) -> Read:
    """What reading one of an item's files gives. Raises PictureError, of the item."""
    try:
        return read(path)
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        if path != item.path:
            kind = "mask" if path == item.mask else "conditioning picture"
            reason = f'its {kind} "{path.name}" {reason}'
        raise ImageError(item.path, reason) from error


def _image(item: Item) -> tuple[Path, ...]:
    return (item.path,)


def _mask(item: Item) -> tuple[Path, ...]:
    return () if item.mask is None else (item.mask,)


def _image_and_mask(item: Item) -> tuple[Path, ...]:
    return () if item.mask is None else (item.path, item.mask)


def _beside(item: Item) -> tuple[Path, ...]:
    return () if item.conditioning is None else (item.conditioning,)


def _mask_beside(item: Item) -> tuple[Path, ...]:
    return _mask(item) if item.conditioning else ()


def _decode_image(item: Item, view: ImageTransform, files: Files) -> Tensor:
    return decode_pixels(item, view, files[0])


def _decode_mask(item: Item, view: ImageTransform, files: Files) -> Tensor:
    return decode_mask(item, view, files[0])[0]


def _decode_hole(item: Item, view: ImageTransform, files: Files) -> Tensor:
    """As diffusers' training scales it: the nearest pixel of each cell, not their average."""
    return functional.interpolate(decode_hole(item, view, files[0]), scale_factor=1 / CELL)[0]


def _decode_rest(item: Item, view: ImageTransform, files: Files) -> Tensor:
    """The picture with its hole in middle gray, as diffusers' inpainting models are trained."""
    image, mask = files
    return decode_pixels(item, view, image) * (1 - decode_hole(item, view, mask)[0])


def _decode_beside(item: Item, view: ImageTransform, files: Files) -> Tensor:
    return decode_conditioning(item, view, files[0])
