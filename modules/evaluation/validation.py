"""Validation loss: the same images under the same noise, however often it is measured.

It is measured on a grid of image x noise level x noise. Every draw follows from the validation's
own seed and from the image's name, so the numbers do not depend on which other images there are,
and training does not depend on them.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

import torch

from modules import seeds
from modules.interfaces import Batch, Probe
from modules.memory.residency import Enter
from modules.objectives.inputs import Objective
from modules.optim.exported_weights import ExportedWeights
from modules.world.world import World, alone
from onetrainer.config.run.hardware import Precision
from onetrainer.config.run.validation import Validation
from onetrainer.metrics.bands import Measurement, best_of, without_gain
from onetrainer.metrics.files import LossesByWeights, MeasurementFiles
from onetrainer.metrics.messages import diverged, not_a_number, validation_summary
from onetrainer.metrics.validation import Weights, judge
from onetrainer.run.events import Event, Validated
from onetrainer.schedules.amounts import Plan, is_due


@dataclass(frozen=True)
class ValidationImages:
    """The validation images.

    Attributes:
        names: Unique in the run.
        concepts: Each image's concept by its name.
        files: Digests of each image's files, in the order of the names.
        digest: Of the images with their captions and masks, independent of the encoders.
        former_digest: The same as earlier versions computed it, which depends on the encoder.
        load: Returns an image as a batch by its index, with its complete caption.
        sizes: Every width and height among them, in pixels.
        world: The processes that share them out.
    """

    names: tuple[str, ...]
    concepts: dict[str, str]
    digest: str
    load: Callable[[int], Batch]
    files: tuple[str, ...] = ()
    sizes: frozenset[tuple[int, int]] = frozenset()
    former_digest: str = ""
    world: World = field(default_factory=alone)


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
        # The purpose is part of the seed: another word would change every validation loss.
        generator = seeds.generator(self.seed, "held-out-noise", image, level, number)
        return torch.randn(shape, generator=generator)


def measure(
    images: ValidationImages,
    grid: Grid,
    *,
    objective: Objective,
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

    def losses_of(place: int) -> list[float]:
        name = images.names[place]
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
        return numbers

    losses = images.world.map(losses_of, len(images.names), before_each)
    return dict(zip(images.names, list(losses), strict=True))


VALIDATE = "validate"
"""The order to measure the validation loss together."""


@dataclass(frozen=True)
class ImageEvaluation:
    """The validation loss of a run: at the start, at an interval, at the end.

    Of the weights that samples and output files use, because the best of those are wanted. Where
    these are an EMA, the weights of the last step may be measured too.

    Attributes:
        at_once: Number of an image's noises in one batch.
        weights: The weights to measure.
        files: Past measurements.
        plan: How far the run is after a step, for intervals in epochs or images.
        phase: Places the model's components for a phase.
    """

    section: Validation
    steps: int
    images: ValidationImages
    grid: Grid
    precision: Precision
    at_once: int
    objective: Objective
    autocast: Callable[[], AbstractContextManager[object]]
    exported: ExportedWeights
    weights: tuple[Weights, ...]
    files: MeasurementFiles[LossesByWeights]
    plan: Plan
    phase: Enter

    @property
    def phase_name(self) -> Literal["validating"]:
        return "validating"

    @property
    def count(self) -> int:
        return len(self.images.names) * len(self.weights)

    @property
    def keeps_best(self) -> bool:
        return self.section.keep_best

    @property
    def prefers_best(self) -> bool:
        return False

    def is_due(self, step: int) -> bool:
        section = self.section
        if step == 0:
            return section.at_start
        is_last = section.at_end and step == self.steps
        return is_last or is_due(section.every, step, self.plan)

    def is_missing(self, step: int, past_events: Sequence[Event]) -> bool:
        reported = {
            event.weights
            for event in past_events
            if isinstance(event, Validated) and event.step == step
        }
        return self.is_due(step) and not reported.issuperset(self.weights)

    @property
    def is_required(self) -> bool:
        return False

    def measure(self, step: int, before_each: Callable[[int], None]) -> None:
        if self.files.by_step.get(step, {}).keys() >= set(self.weights):
            return
        with self.images.world.shared(VALIDATE, step):
            measured = self._measure(step, before_each)
        self.files.add(step, measured)

    def take_part(self, step: int) -> None:
        """Do this process's part of a measurement of rank 0's, in evaluation mode."""
        self._measure(step, lambda _: None)

    def _measure(self, step: int, before_each: Callable[[int], None]) -> dict[Weights, Measurement]:
        forms = {
            "sampling": self.exported.for_samples,
            "without_ema": self.exported.without_ema,
        }
        measured: dict[Weights, Measurement] = {}

        def before_image(place: int) -> None:
            before_each(len(measured) * len(self.images.names) + place)

        with self.phase("validation"):
            for weights in self.weights:
                with forms[weights]():
                    losses = measure(
                        self.images,
                        self.grid,
                        objective=self.objective,
                        autocast=self.autocast,
                        at_once=self.at_once,
                        before_each=before_image,
                        is_untrained=step == 0,
                        precision=self.precision,
                    )
                measured[weights] = Measurement(step, losses, self.grid.noises)
        return measured

    def events(self) -> list[Event]:
        concepts = self.images.concepts
        return [
            judge(self.history(weights), concepts=concepts, weights=weights)
            for weights in self.weights
        ]

    def history(self, weights: Weights = "sampling") -> list[Measurement]:
        """Return the measurements of some weights in the order of their steps."""
        return [each[weights] for each in self.files.by_step.values() if weights in each]

    def should_stop_early(self) -> bool:
        """Return whether the patience is used up: as many measurements in a row without gain."""
        return 0 < self.section.patience <= without_gain(self.history())

    def best_step(self) -> int | None:
        history = self.history() if self.keeps_best else []
        return best_of(history).step or None if history else None

    def summary(self, first: int, step: int, best_files: Sequence[Path]) -> list[str]:
        is_early = step < self.steps and self.should_stop_early()
        return validation_summary(
            self.history(),
            early_end=step if is_early else None,
            is_untrained=first == step,
            best_files=[path.name for path in best_files],
        )
