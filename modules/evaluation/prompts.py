"""Held-out prompts, drawn from the same noise every time and scored: how reward training does.

Nothing here is a matter of chance, and nothing of the training is changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from modules import seeds
from modules.data.prompts import EMPTY, EncodedPrompts, frames_of
from modules.interfaces import Conditioning, Family
from modules.memory.to_device import sent
from modules.rewards.drift import contrast, saturation, shrunk
from modules.rewards.mixer import Mixer
from modules.sampling.rollout import Rollout, untrained

DISTANCE_LEVELS = (0.25, 0.5, 0.75)
"""At which noise levels the distance to the base is measured, as shares of the schedule."""
LATENT_CHANNELS, LATENT_SIDE = 4, 8


@dataclass(frozen=True)
class ValidationPrompts:
    """What is drawn each time.

    seeds: so many pictures of each prompt; their noise comes from first_seed and the numbers after
    it. size: width and height in pixels. texts: None where prompts are to be encoded each time.
    at_once: so many pictures are computed together.
    """

    prompts: tuple[str, ...]
    seeds: int
    first_seed: int
    size: tuple[int, int]
    texts: EncodedPrompts | None
    at_once: int

    @property
    def count(self) -> int:
        """How many pictures there are."""
        return len(self.prompts) * self.seeds

    def each(self) -> Iterator[tuple[str, int]]:
        """Prompt and seed of every picture, in their order."""
        for prompt in self.prompts:
            for number in range(self.seeds):
                yield prompt, self.first_seed + number


@dataclass(frozen=True)
class Drawn:
    """The pictures of one prompt, with what they score.

    pictures: (seeds, 3, H, W), float32 in [0, 1]; small: what of them counts for how different they
    are. total: (seeds,); by_name: each reward's own, (seeds,). distance: (seeds,), mean squared
    difference to the base's noise predictions; None where it was not asked for. All on the CPU.
    """

    prompt: str
    images: Tensor
    total: Tensor
    by_name: Mapping[str, Tensor]
    small: Tensor
    contrast: Tensor
    saturation: Tensor
    distance: Tensor | None

    def without_images(self) -> "Drawn":
        """The same without the pictures, whose memory is given back."""
        return replace(self, images=self.images.new_empty(0, *self.images.shape[1:]))


@dataclass(frozen=True)
class Evaluator:
    """Draws and scores held-out prompts.

    merged, autocast: contexts of the method and of the engine. untouched: meanwhile the family
    computes as before training; None where the distance to that is not wanted. device: where the
    latents are. before_each: told how many pictures are done before more are drawn; whatever it
    raises ends it.
    """

    family: Family
    validation: ValidationPrompts
    rollout: Rollout
    merged: Callable[[], AbstractContextManager[None]]
    autocast: Callable[[], AbstractContextManager[object]]
    untouched: Callable[[], AbstractContextManager[None]] | None
    device: torch.device

    @torch.no_grad()
    def look(self, mixer: Mixer, before_each: Callable[[int], None]) -> Iterator[Drawn]:
        """Every prompt's pictures, one prompt after the other."""
        held = self.validation
        for number, prompt in enumerate(held.prompts):
            latents, parts = [], []
            for start in range(0, held.seeds, held.at_once):
                before_each(number * held.seeds + start)
                own = range(start, min(start + held.at_once, held.seeds))
                latents.append(self._latents(prompt, [held.first_seed + each for each in own]))
                parts.append(self.rollout.decode(latents[-1]))
            scores = [mixer.score(part, [prompt] * len(part)) for part in parts]
            images = torch.cat(parts).float()
            distance = None
            if self.untouched is not None:
                distance = torch.cat([self._distance(prompt, one) for one in latents]).cpu()
            yield Drawn(
                prompt=prompt,
                images=images.cpu(),
                total=torch.cat([one.total for one in scores]).cpu(),
                by_name={
                    name: torch.cat([one.by_name[name] for one in scores]).cpu()
                    for name in scores[0].by_name
                },
                small=shrunk(images).cpu(),
                contrast=contrast(images).cpu(),
                saturation=saturation(images).cpu(),
                distance=distance,
            )

    def _latents(self, prompt: str, own_seeds: Sequence[int]) -> Tensor:
        conditioning, empty = self._texts(prompt, len(own_seeds))
        start = torch.cat([self._start(seed) for seed in own_seeds])

        def noise(place: int, number: int) -> Tensor:
            generator = seeds.generator(own_seeds[place], "look", number)
            return torch.randn(start.shape[1:], generator=generator)

        with self.autocast():
            return self.rollout.draw(
                start,
                conditioning=conditioning,
                empty=empty,
                frames=frames_of(self.validation.size, len(own_seeds)),
                courses=[untrained(self.rollout.steps)] * len(own_seeds),
                noise=noise,
                quick=self.merged,
            )

    def _texts(self, prompt: str, count: int) -> tuple[Conditioning, Conditioning]:
        texts = self.validation.texts
        if texts is not None:
            one, empty = texts.together([prompt], among=[prompt])
        else:
            with self.autocast():
                one = self.family.encode_text([prompt])
                empty = self.family.encode_text([EMPTY], among=[prompt])
        return one.repeated(count), empty

    def _start(self, seed: int) -> Tensor:
        """(1, 4, h, w), float32, standard normal, as `onetrainer sample` takes it from a seed."""
        width, height = self.validation.size
        shape = (1, LATENT_CHANNELS, height // LATENT_SIDE, width // LATENT_SIDE)
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed))

    def _distance(self, prompt: str, latents: Tensor) -> Tensor:
        """(B,), the mean squared difference of noise predictions, as shares of the noise's.

        The base reads the prompt as it did: text encoders and words may be all that is trained.
        """
        assert self.untouched is not None
        schedule = self.family.schedule.to(self.device)
        levels = [int(level * schedule.steps) for level in DISTANCE_LEVELS]
        noisy = []
        for place, level in enumerate(levels):
            generator = seeds.generator(self.validation.first_seed, "distance", place)
            noise = sent(torch.randn(latents.shape[1:], generator=generator), self.device)
            noisy.append(schedule.add_noise(latents, noise, self._timesteps(level, len(latents))))
        now = self._predicted(prompt, noisy, levels)
        with self.untouched():  # once: a whole model's weights take long to be exchanged
            before = self._predicted(prompt, noisy, levels)
        found = []
        for level, one, other in zip(levels, now, before, strict=True):
            squares = (one - other).square().mean(dim=(1, 2, 3))
            if self.family.prediction == "v_prediction":
                # Noise is signal * v + noise level * x: of two predictions of v the noises differ
                # by the signal's share.
                squares = squares * schedule.signal[level] ** 2
            found.append(squares)
        return torch.stack(found).mean(dim=0)

    def _predicted(
        self, prompt: str, noisy: Sequence[Tensor], levels: Sequence[int]
    ) -> list[Tensor]:
        """What the UNet makes of latents, each (B, 4, h, w), at timesteps, as it is now."""
        count = len(noisy[0])
        conditioning, _ = self._texts(prompt, count)
        frames = frames_of(self.validation.size, count)
        with self.autocast():
            return [
                self.family.predict(one, self._timesteps(level, count), conditioning, frames=frames)
                for one, level in zip(noisy, levels, strict=True)
            ]

    def _timesteps(self, level: int, count: int) -> Tensor:
        """(B,), int64, on the device."""
        return sent(torch.full((count,), level), self.device)
