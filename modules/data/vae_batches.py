"""VAE encoding in batches of constant size, smaller ones where memory is short."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from modules.interfaces import LatentMoments
from modules.memory.precision import free_cached_memory
from onetrainer.run.failures import is_out_of_memory


class VaeBatches:
    """Encodes images of one size, in batches of a constant number.

    Kernels, and with them rounding, depend on the batch size (measured for SD's VAE on a CPU: 1e-6
    between a batch of four and four of one). So an incomplete batch is filled up: the encoding of
    an image depends on `size`, and not on the other images.
    """

    def __init__(self, encode: Callable[[Tensor], LatentMoments], size: int) -> None:
        """Set up the batches. encode: the VAE. size: images per batch, as long as memory allows."""
        self._encode = encode
        self._wanted = self.size = size

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning if there was too little memory for the batch size."""
        if self.size == self._wanted:
            return ()
        count = f"{self.size if self.size > 1 else 'one'} at a time"
        return (f"not enough memory to encode {self._wanted} images at once; used {count}",)

    def encode(self, images: Sequence[Tensor]) -> Iterator[tuple[int, LatentMoments]]:
        """Encode images, each (3, H, W), on the VAE's device, in batches.

        Yields each batch's size and its moments, without those of padding images. Running out of
        memory halves the batch size permanently; the error is raised if a single image does not
        fit.
        """
        done = 0
        while done < len(images):
            batch = images[done : done + self.size]
            moments = self._encode_or_none(batch)
            if moments is None:
                self.size //= 2
                free_cached_memory()  # of what failed: the cached blocks have another size
            else:
                yield self.size, moments
                done += len(batch)

    def _encode_or_none(self, images: Sequence[Tensor]) -> LatentMoments | None:
        """Return the moments; None if there is too little memory for the batch."""
        filled = [*images, *[images[-1]] * (self.size - len(images))]
        try:
            with torch.no_grad():
                # A single image is not copied.
                moments = self._encode(filled[0][None] if len(filled) == 1 else torch.stack(filled))
        except (MemoryError, RuntimeError) as error:
            if self.size == 1 or not is_out_of_memory(error):
                raise
            return None  # the size is lowered outside: the error still references tensors
        count = len(images)
        return LatentMoments(moments.mean[:count], moments.std[:count])
