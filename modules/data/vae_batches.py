"""Pictures through the VAE, always so many at once, fewer where memory is short."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from modules.interfaces import LatentMoments

_LACKS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
"""In what torch says: of the processor's memory it has no error of its own."""


class VaeBatches:
    """What encodes pictures of one size, in batches of one size.

    Kernels, and with them the rounding, are chosen by the size of a batch (measured on SD's VAE on
    a processor: 1e-6 between a batch of four and four of one). So a batch that is not full is
    filled up: what becomes of a picture depends on `size`, and not on those beside it.
    """

    def __init__(self, encode: Callable[[Tensor], LatentMoments], size: int) -> None:
        """encode: the VAE. size: how many at once, as long as memory allows."""
        self._encode = encode
        self.size = size

    def encode(self, images: Sequence[Tensor]) -> Iterator[tuple[int, LatentMoments]]:
        """The moments of pictures, each (3, H, W), where the VAE is, in batches.

        With each batch its size; the moments are of those pictures alone that it was filled up
        for. A lack of memory halves the size from then on; raised if that of one is too much.
        """
        place = 0
        while place < len(images):
            some = images[place : place + self.size]
            moments = self._tried(some)
            if moments is None:
                self.size //= 2
                _let_go()
            else:
                yield self.size, moments
                place += len(some)

    def _tried(self, images: Sequence[Tensor]) -> LatentMoments | None:
        """The moments; None if there is too little memory for so many."""
        filling = [images[-1]] * (self.size - len(images))
        try:
            with torch.no_grad():
                moments = self._encode(_stacked([*images, *filling]))
        except (MemoryError, RuntimeError) as error:
            if self.size == 1 or not is_lack_of_memory(error):
                raise
            return None  # not here: the error still holds on to what was computed
        count = len(images)
        return LatentMoments(moments.mean[:count], moments.std[:count])


def is_lack_of_memory(error: Exception) -> bool:
    """Of a card, or of the computer."""
    words = str(error).lower()
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(sign in words for sign in _LACKS)


def _stacked(images: Sequence[Tensor]) -> Tensor:
    """(B, 3, H, W); without a copy of a single one."""
    return images[0][None] if len(images) == 1 else torch.stack(list(images))


def _let_go() -> None:
    """Gives what failed back to the card, whose free memory is in pieces of another size."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
