"""Samples of a run by prompt and step."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from onetrainer.run.events import Sample


@dataclass
class SampleBook:
    """Samples by prompt and step; a later sample replaces an earlier one.

    Attributes:
        prompts: Indexes of the prompts in ascending order.
        steps: Steps with samples in ascending order.
    """

    _by_place: dict[tuple[int, int], Sample] = field(default_factory=dict)
    _steps_of: dict[int, list[int]] = field(default_factory=dict)
    prompts: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "SampleBook":
        """Build a book from samples in the order they were generated."""
        by_place = {(sample.prompt_index, sample.step): sample for sample in samples}
        steps_of: dict[int, list[int]] = {}
        for prompt, step in sorted(by_place):
            steps_of.setdefault(prompt, []).append(step)
        return cls(by_place, steps_of, list(steps_of), sorted({step for _, step in by_place}))

    def steps_of(self, prompt: int) -> list[int]:
        """Return the steps with a sample of one prompt."""
        return self._steps_of.get(prompt, [])

    def at(self, prompt: int, step: int) -> Sample | None:
        """Return the sample of a prompt and step; None if there is none."""
        return self._by_place.get((prompt, step))

    def nearest(self, prompt: int, step: int) -> Sample | None:
        """Return the sample of a prompt at the nearest step; None if the prompt has none."""
        steps = self.steps_of(prompt)
        if not steps:
            return None
        place = bisect_left(steps, step)
        near = steps[max(0, place - 1) : place + 1]
        return self._by_place[prompt, min(near, key=lambda known: abs(known - step))]

    def newest(self) -> list[Sample]:
        """Return the last sample of each prompt."""
        return [self._by_place[prompt, self.steps_of(prompt)[-1]] for prompt in self.prompts]


def thumbnail(folder: Path, sample: Sample) -> Path:
    """Return the path of a sample's thumbnail, or of the sample if it has none."""
    path = folder / sample.path
    small = path.with_name(f"{path.stem}.thumb.jpg")
    return small if small.is_file() else path
