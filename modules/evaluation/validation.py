"""Validation loss: the same images under the same noise, however often it is measured.

It is measured on a grid of image x noise level x noise. Every draw follows from the validation's
own seed and from the image's name, so the numbers do not depend on which other images there are,
and training does not depend on them.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction

import torch

from modules import seeds
from modules.interfaces import Batch, Objective, Probe
from onetrainer.config.run.hardware import Precision
from onetrainer.metrics.loss_errors import diverged, not_a_number


@dataclass(frozen=True)
class ValidationImages:
    """The validation images.

    Attributes:
        names: Unique in the run.
        concepts: Each image's concept by its name.
        digest: Of the images with their captions and masks, independent of the encoders.
        former_digest: The same as earlier versions computed it, which depends on the encoder.
        load: Returns an image as a batch by its index, with its complete caption.
        sizes: Every width and height among them, in pixels.
    """

    names: tuple[str, ...]
    concepts: dict[str, str]
    digest: str
    load: Callable[[int], Batch]
    sizes: frozenset[tuple[int, int]] = frozenset()
    former_digest: str = ""


@dataclass(frozen=True)
class Grid:
    """Noise levels and noises of the measurements of each image.

    Attributes:
        levels: Number of noise levels, at the centers of as many equal intervals from no noise to
            pure noise.
        noises: Number of noises at each level.
        measure: Settings that affect losses, as text.
    """

    levels: int
    noises: int
    seed: int
    measure: str = ""

    def digest(self, images: str) -> str:
        """Return a digest of everything that affects the measurements. images: their digest."""
        text = f"{self.levels} {self.noises} {self.seed} {self.measure} {images}"
        return hashlib.sha256(text.encode()).hexdigest()

    def probes(self, name: str, shape: torch.Size, *, at_once: int) -> Iterator[Probe]:
        """Yield an image's probes of up to `at_once` noises, ordered by level.

        Args:
            name: Of the image.
            shape: Of its latent, (4, h, w).
            at_once: Noises per probe.
        """
        cells = [(level, noise) for level in range(self.levels) for noise in range(self.noises)]
        for start in range(0, len(cells), at_once):
            batch = cells[start : start + at_once]
            yield Probe(
                levels=tuple(Fraction(2 * level + 1, 2 * self.levels) for level, _ in batch),
                noise=torch.stack([self._noise(name, shape, *cell) for cell in batch]),
            )

    def _noise(self, name: str, shape: torch.Size, level: int, number: int) -> torch.Tensor:
        # Different noise at each level: the mean over levels is then less noisy.
        image = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        generator = seeds.generator(self.seed, "held-out-noise", image, level, number)
        return torch.randn(shape, generator=generator)


def measure(
    images: ValidationImages,
    grid: Grid,
    *,
    objective: Objective[Batch],
    autocast: Callable[[], AbstractContextManager[object]],
    at_once: int,
    before_each: Callable[[int], None],
    is_untrained: bool = False,
    precision: Precision | None = None,
) -> dict[str, list[float]]:
    """Return the losses of each image by its name, in the order of its probes.

    Images are computed one at a time, so that an image's numbers are bit for bit the same whichever
    others there are. The model must be in evaluation mode.

    at_once: Maximum number of an image's noises in one batch. before_each: Called with the number
    of images done; may raise to abort. is_untrained, precision: Whether no step has been made, and
    the compute precision, for the error message.

    Raises:
        UserError: If a loss is not finite.
    """
    losses: dict[str, list[float]] = {}
    for place, name in enumerate(images.names):
        before_each(place)
        with torch.no_grad():
            batch = images.load(place)
            probes = grid.probes(name, batch.moments.mean.shape[1:], at_once=at_once)
            with autocast():
                parts = [objective.validation(batch, probe) for probe in probes]
        numbers: list[float] = torch.cat(parts).tolist()  # waits for the device
        not_finite = [loss for loss in numbers if not math.isfinite(loss)]
        if not_finite and is_untrained:
            raise not_a_number(name, precision)
        if not_finite:
            raise diverged(f"{name}: the validation loss is {not_finite[0]}", precision)
        losses[name] = numbers
    return losses
