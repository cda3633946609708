"""The samples of a run by prompt and step. No Tk."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from onetrainer.run.events import Sample


@dataclass
class SampleBook:
    """Rows are prompts, columns are steps; a later sample of the same place takes it over."""

    _by_place: dict[tuple[int, int], Sample] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "SampleBook":
        """A book of samples in the order in which they were drawn."""
        return cls({(sample.prompt_index, sample.step): sample for sample in samples})

    @property
    def prompts(self) -> list[int]:
        """The prompts' numbers, from the first."""
        return sorted({prompt for prompt, _ in self._by_place})

    @property
    def steps(self) -> list[int]:
        """The steps at which samples were drawn, from the first."""
        return sorted({step for _, step in self._by_place})

    def steps_of(self, prompt: int) -> list[int]:
        """The steps at which one prompt was drawn."""
        return sorted(step for number, step in self._by_place if number == prompt)

    def at(self, prompt: int, step: int) -> Sample | None:
        """The sample at a place; None if there is none."""
        return self._by_place.get((prompt, step))

    def nearest(self, prompt: int, step: int) -> Sample | None:
        """The sample of a prompt whose step is nearest; None for a prompt without any."""
        steps = self.steps_of(prompt)
        if not steps:
            return None
        return self._by_place[prompt, min(steps, key=lambda known: abs(known - step))]

    def newest(self) -> list[Sample]:
        """The last sample of each prompt."""
        return [self._by_place[prompt, self.steps_of(prompt)[-1]] for prompt in self.prompts]


def thumbnail(folder: Path, sample: Sample) -> Path:
    """The small picture beside a sample, or the sample itself where there is none."""
    path = folder / sample.path
    small = path.with_name(f"{path.stem}.thumb.jpg")
    return small if small.is_file() else path
