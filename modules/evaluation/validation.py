"""The held-out loss: the same pictures, under the same noise, however often it is measured.

Measured is a grid of picture × noise level × noise. Everything that is drawn follows from the
validation's own seed and from what a picture is called, so that the numbers do not depend on which
other pictures there are, and training does not depend on them.
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
from onetrainer.metrics.loss_errors import diverged, no_number


@dataclass(frozen=True)
class ValidationImages:
    """The pictures that are held out of training.

    names: what each is called in the run, no two alike. concepts: each one's, by its name.
    digest: tells these pictures, with their captions and masks, from others.
    load: one of them as a batch, by its place, with its caption whole. sizes: every width and
    height among them, in pixels.
    """

    names: tuple[str, ...]
    concepts: dict[str, str]
    digest: str
    load: Callable[[int], Batch]
    sizes: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Grid:
    """Under which noise each picture is measured.

    levels: so many noise levels, in the middles of as many equal parts of the way from no noise to
    nothing but noise. noises: so many noises at each. measure: tells what the losses are of from
    anything else, such as the settings that change their level.
    """

    levels: int
    noises: int
    seed: int
    measure: str = ""

    def digest(self, images: ValidationImages) -> str:
        """Tells what is measured from anything else that could be."""
        text = f"{self.levels} {self.noises} {self.seed} {self.measure} {images.digest}"
        return hashlib.sha256(text.encode()).hexdigest()

    def probes(self, name: str, shape: torch.Size, *, at_once: int) -> Iterator[Probe]:
        """A picture's noises, some at a time: by level, and those of a level one by one.

        shape: of its latent, (4, h, w).
        """
        cells = [(level, noise) for level in range(self.levels) for noise in range(self.noises)]
        for start in range(0, len(cells), at_once):
            some = cells[start : start + at_once]
            yield Probe(
                levels=tuple(Fraction(2 * level + 1, 2 * self.levels) for level, _ in some),
                noise=torch.stack([self._noise(name, shape, *cell) for cell in some]),
            )

    def _noise(self, name: str, shape: torch.Size, level: int, number: int) -> torch.Tensor:
        # Of its own for each level too: averaged over levels it says more than one noise would.
        image = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        drawn = seeds.generator(self.seed, "held-out-noise", image, level, number)
        return torch.randn(shape, generator=drawn)


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
    """The losses of each picture, by its name, in the order of its probes.

    One picture after the other, and at most so many of its noises at once, so that a picture's
    numbers are the same to the last bit whichever others there are. The model is to be in
    evaluation mode. before_each: told how many pictures are done; may raise, to end it.
    is_untrained: whether no step has been made, precision: what is computed in; both for what is
    told by the UserError that is raised if a loss is not a number.
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
        broken = [loss for loss in numbers if not math.isfinite(loss)]
        if broken and is_untrained:
            raise no_number(name, precision)
        if broken:
            raise diverged(f"{name}: the held-out loss is {broken[0]}", precision)
        losses[name] = numbers
    return losses
