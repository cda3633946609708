"""Samples of a run by prompt and step."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from onetrainer.run.events import Sample


@dataclass
class SampleBook:
    """Samples by prompt and step; a later sample replaces an earlier one."""

    _by_place: dict[tuple[int, int], Sample] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "SampleBook":
        """Build a book from samples in the order they were generated."""
        return cls({(sample.prompt_index, sample.step): sample for sample in samples})

    @property
    def prompts(self) -> list[int]:
        """Indexes of the prompts in ascending order."""
        return sorted({prompt for prompt, _ in self._by_place})

    @property
    def steps(self) -> list[int]:
        """Steps with samples in ascending order."""
        return sorted({step for _, step in self._by_place})

    def steps_of(self, prompt: int) -> list[int]:
        """Return the steps with a sample of one prompt."""
        return sorted(step for number, step in self._by_place if number == prompt)

    def at(self, prompt: int, step: int) -> Sample | None:
        """Return the sample of a prompt and step; None if there is none."""
        return self._by_place.get((prompt, step))

    def nearest(self, prompt: int, step: int) -> Sample | None:
        """Return the sample of a prompt at the nearest step; None if the prompt has none."""
        steps = self.steps_of(prompt)
        if not steps:
            return None
        return self._by_place[prompt, min(steps, key=lambda known: abs(known - step))]

    def newest(self) -> list[Sample]:
        """Return the last sample of each prompt."""
        return [self._by_place[prompt, self.steps_of(prompt)[-1]] for prompt in self.prompts]


def thumbnail(folder: Path, sample: Sample) -> Path:
    """Return the path of a sample's thumbnail, or of the sample if it has none."""
    path = folder / sample.path
    small = path.with_name(f"{path.stem}.thumb.jpg")
    return small if small.is_file() else path
