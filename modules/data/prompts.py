"""Which prompts each step of reward training draws, and those prompts as batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.data.texts import joined, padded
from modules.interfaces import Conditioning, Family, PromptBatch
from modules.seeds import derive
from onetrainer.seeds import shuffled

EMPTY = ""


@dataclass(frozen=True)
class EncodedPrompts:
    """Prompts that were encoded beforehand, on the CPU, with the empty one among them."""

    encoded: Mapping[str, Conditioning]

    @staticmethod
    @torch.no_grad()
    def of(family: Family, prompts: Iterable[str]) -> "EncodedPrompts":
        """Encodes each prompt alone, so that its encoding depends on no other.

        prompts: the empty one among them; asked for one after the other.
        """
        cpu = torch.device("cpu")
        found = {}
        for prompt in prompts:
            one = family.encode_text([prompt])
            found[prompt] = one.to(cpu, one.hidden.dtype)
        return EncodedPrompts(found)

    def together(
        self, prompts: Sequence[str], *, among: Sequence[str]
    ) -> tuple[Conditioning, Conditioning]:
        """The prompts, and the empty one (of a batch of one), as long as the longest of `among`."""
        empty = self.encoded[EMPTY]
        tokens = max(self.encoded[prompt].hidden.shape[1] for prompt in (*among, *prompts))
        every = [padded(self.encoded[prompt], empty, tokens) for prompt in prompts]
        return joined(every), padded(empty, empty, tokens)


@dataclass(frozen=True)
class PromptBatches:
    """The prompts of each step, a function of the step alone.

    All of them in an order of their own, then all again in another one; a step takes batch_size ×
    accumulation of them. texts: None where they are to be encoded in every step. size: of the
    pictures, width and height in pixels.
    """

    prompts: tuple[str, ...]
    texts: EncodedPrompts | None
    batch_size: int
    accumulation: int
    seed: int
    size: tuple[int, int]

    def at(self, step: int) -> Iterator[PromptBatch]:
        """The microbatches of a step."""
        of_step = self.of_step(step)
        for start in range(0, len(of_step), self.batch_size):
            prompts = of_step[start : start + self.batch_size]
            conditioning = empty = None
            if self.texts is not None:
                conditioning, empty = self.texts.together(prompts, among=of_step)
            yield PromptBatch(
                prompts=prompts,
                step_prompts=of_step,
                conditioning=conditioning,
                empty=empty,
                time_ids=time_ids_of(self.size, len(prompts)),
                positions=tuple(range(start, start + len(prompts))),
                weight=1 / len(of_step),
                size=self.size,
            )

    def of_step(self, step: int) -> tuple[str, ...]:
        """All prompts of a step, by position."""
        first = step * self.images_per_step
        places = [
            divmod(number, len(self.prompts))
            for number in range(first, first + self.images_per_step)
        ]
        orders = {turn: self._order(turn) for turn in dict(places)}
        return tuple(self.prompts[orders[turn][place]] for turn, place in places)

    def epoch_of(self, step: int) -> int:
        """Which pass over the prompts a step begins in, from 0."""
        return step * self.images_per_step // len(self.prompts)

    @property
    def images_per_step(self) -> int:
        """How many pictures a step draws."""
        return self.batch_size * self.accumulation

    def _order(self, turn: int) -> list[int]:
        return shuffled(range(len(self.prompts)), derive(self.seed, "prompt-order", turn))


def time_ids_of(size: tuple[int, int], count: int) -> Tensor:
    """What SDXL is told of pictures that are shown whole, (count, 6), as `Family.predict` says."""
    width, height = size
    return torch.tensor([[height, width, 0, 0, height, width]] * count, dtype=torch.float32)
