"""Conditioning of several texts, and the prompts of each step of reward training, as batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.interfaces import Conditioning, Family, PromptBatch
from modules.seeds import derive
from onetrainer.seeds import shuffled

EMPTY = ""


def padded(
    encoded: Callable[[str], Conditioning], texts: Sequence[str], *, among: Iterable[str]
) -> tuple[Conditioning, Conditioning]:
    """Return the conditioning of texts and of the empty one, padded to the longest of `among`.

    That is all texts of a step, since padding must not depend on the microbatch size. Texts are
    encoded in chunks of one length, 77 tokens for CLIP, and padded with that of the empty prompt:
    models know it as the end of the text, whereas zeros would be unknown to them.
    """
    known = {text: encoded(text) for text in {EMPTY, *texts, *among}}
    empty = known[EMPTY]
    tokens = max(known[text].hidden.shape[1] for text in among)

    def pad(one: Conditioning) -> Conditioning:
        if not (missing := tokens - one.hidden.shape[1]):
            return one
        padding = empty.hidden.repeat(1, missing // empty.hidden.shape[1], 1)
        return Conditioning(torch.cat([one.hidden, padding], dim=1), one.pooled)

    return Conditioning.joined([pad(known[text]) for text in texts]), pad(empty)


@dataclass(frozen=True)
class EncodedPrompts:
    """Prompts that were encoded in advance, on the CPU, including the empty one."""

    encoded: Mapping[str, Conditioning]

    @staticmethod
    @torch.no_grad()
    def of(family: Family, prompts: Iterable[str]) -> "EncodedPrompts":
        """Encode each prompt alone, so that its encoding depends on no other.

        prompts: including the empty one; iterated lazily.
        """
        cpu = torch.device("cpu")
        encoded = {}
        for prompt in prompts:
            conditioning = family.encode_text([prompt])
            encoded[prompt] = conditioning.to(cpu, conditioning.hidden.dtype)
        return EncodedPrompts(encoded)

    def conditioning(
        self, prompts: Sequence[str], *, among: Sequence[str]
    ) -> tuple[Conditioning, Conditioning]:
        """Return that of the prompts and of the empty one, padded to the longest of `among`."""
        return padded(self.encoded.__getitem__, prompts, among=(*among, *prompts))


@dataclass(frozen=True)
class PromptBatches:
    """The prompts of each step, a function of the step alone.

    All of them in a shuffled order, then all again in another one; a step takes batch_size ×
    accumulation of them. texts: None if they are encoded in every step. size: of the images, width
    and height in pixels.
    """

    prompts: tuple[str, ...]
    texts: EncodedPrompts | None
    batch_size: int
    accumulation: int
    seed: int
    size: tuple[int, int]

    def at(self, step: int) -> Iterator[PromptBatch]:
        """Iterate over the microbatches of a step."""
        of_step = self.of_step(step)
        for start in range(0, len(of_step), self.batch_size):
            prompts = of_step[start : start + self.batch_size]
            conditioning = empty = None
            if self.texts is not None:
                conditioning, empty = self.texts.conditioning(prompts, among=of_step)
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
        """Return all prompts of a step, by position."""
        first = step * self.images_per_step
        numbers = range(first, first + self.images_per_step)
        positions = [divmod(number, len(self.prompts)) for number in numbers]
        orders = {
            epoch: shuffled(range(len(self.prompts)), derive(self.seed, "prompt-order", epoch))
            for epoch in dict(positions)
        }
        return tuple(self.prompts[orders[epoch][place]] for epoch, place in positions)

    def epoch_of(self, step: int) -> int:
        """Return the epoch of the prompts that a step starts in, from 0."""
        return step * self.images_per_step // len(self.prompts)

    @property
    def images_per_step(self) -> int:
        """Number of images that a step generates."""
        return self.batch_size * self.accumulation


def time_ids_of(size: tuple[int, int], count: int) -> Tensor:
    """Return the size conditioning of uncropped images, (count, 6), see `Family.predict`."""
    width, height = size
    return torch.tensor([[height, width, 0, 0, height, width]] * count, dtype=torch.float32)
