"""Evaluation on validation prompts: generated from the same noise every time, and scored.

Deterministic, and without effect on training.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from modules import seeds
from modules.data.prompts import EMPTY, EncodedPrompts, time_ids_of
from modules.interfaces import Conditioning, Family
from modules.memory.to_device import to_device
from modules.rewards.measures import contrast, downscaled, saturation
from modules.rewards.mixer import Mixer
from modules.sampling.rollout import Rollout, untrained
from modules.world.world import World, alone

DISTANCE_LEVELS = (0.25, 0.5, 0.75)
"""Noise levels at which the distance to the base model is measured, as fractions of the schedule.
"""


@dataclass(frozen=True)
class ValidationPrompts:
    """Validation prompts and the seeds and size of their images.

    Attributes:
        seeds: Number of images per prompt, with seeds from `first_seed` on.
        size: Width and height in pixels.
        texts: None if prompts must be encoded each time.
        at_once: Images per batch.
    """

    prompts: tuple[str, ...]
    seeds: int
    first_seed: int
    size: tuple[int, int]
    texts: EncodedPrompts | None
    at_once: int

    @property
    def count(self) -> int:
        """Number of images."""
        return len(self.prompts) * self.seeds

    def each(self) -> Iterator[tuple[str, int]]:
        """Yield the prompt and seed of every image in order."""
        for prompt in self.prompts:
            for number in range(self.seeds):
                yield prompt, self.first_seed + number


@dataclass(frozen=True)
class ScoredPrompt:
    """Images of one prompt and their scores, on the CPU.

    Attributes:
        images: (seeds, 3, H, W), float32 in [0, 1].
        total: (seeds,), weighted sum of the rewards.
        by_name: Each reward's scores, (seeds,).
        small: Downscaled images for measures of diversity.
        distance: (seeds,), mean squared difference to the base model's noise predictions; None if
            not measured.
    """

    prompt: str
    images: Tensor
    total: Tensor
    by_name: Mapping[str, Tensor]
    small: Tensor
    contrast: Tensor
    saturation: Tensor
    distance: Tensor | None

    def without_images(self) -> "ScoredPrompt":
        """Return a copy without the images, so that their memory can be freed."""
        return replace(self, images=self.images.new_empty(0, *self.images.shape[1:]))


@dataclass(frozen=True)
class Evaluator:
    """Generates and scores images of validation prompts.

    Attributes:
        merged, autocast: Contexts of the method and of the engine.
        base_model: Context in which the family is the base model; None if the distance to it is not
            measured.
        device: Of the latents.
        world: Shares the prompts out.
    """

    family: Family
    validation: ValidationPrompts
    rollout: Rollout
    merged: Callable[[], AbstractContextManager[None]]
    autocast: Callable[[], AbstractContextManager[object]]
    base_model: Callable[[], AbstractContextManager[None]] | None
    device: torch.device
    world: World = field(default_factory=alone)

    def evaluate(
        self, mixer: Mixer, before_each: Callable[[int], None]
    ) -> Generator[ScoredPrompt, None, None]:
        """Yield each prompt's images and scores.

        Args:
            mixer: The rewards.
            before_each: Called before each batch with the number of images done; may raise to
                abort.
        """
        prompts = self.validation.prompts

        def score(number: int) -> ScoredPrompt:
            return self._scored(number, prompts[number], mixer, before_each)

        return self.world.map(score, len(prompts), lambda _: None)

    @torch.no_grad()
    def _scored(
        self, number: int, prompt: str, mixer: Mixer, before_each: Callable[[int], None]
    ) -> ScoredPrompt:
        """Generate and score the images of a prompt, by its number."""
        validation = self.validation
        latents, batches = [], []
        for start in range(0, validation.seeds, validation.at_once):
            before_each(number * validation.seeds + start)
            stop = min(start + validation.at_once, validation.seeds)
            batch_seeds = [validation.first_seed + number for number in range(start, stop)]
            latents.append(self._latents(prompt, batch_seeds))
            batches.append(self.rollout.decode(latents[-1]))
        scores = [mixer.score(batch, [prompt] * len(batch)) for batch in batches]
        images = torch.cat(batches).float()
        distance = None
        if self.base_model is not None:
            distance = torch.cat([self._distance(prompt, batch) for batch in latents]).cpu()
        return ScoredPrompt(
            prompt=prompt,
            images=images.cpu(),
            total=torch.cat([score.total for score in scores]).cpu(),
            by_name={
                name: torch.cat([score.by_name[name] for score in scores]).cpu()
                for name in scores[0].by_name
            },
            small=downscaled(images).cpu(),
            contrast=contrast(images).cpu(),
            saturation=saturation(images).cpu(),
            distance=distance,
        )

    def _latents(self, prompt: str, batch_seeds: Sequence[int]) -> Tensor:
        conditioning, empty = self._texts(prompt, len(batch_seeds))
        shape = self.family.spec.latent_shape(*self.validation.size)
        # As `onetrainer sample` does for a seed, in float32 on the CPU.
        generators = [torch.Generator().manual_seed(seed) for seed in batch_seeds]
        start = torch.cat([torch.randn((1, *shape), generator=each) for each in generators])

        def noise(place: int, number: int) -> Tensor:
            generator = seeds.generator(batch_seeds[place], "look", number)
            return torch.randn(start.shape[1:], generator=generator)

        with self.autocast():
            return self.rollout.generate(
                start,
                conditioning=conditioning,
                empty=empty,
                time_ids=time_ids_of(self.validation.size, len(batch_seeds)),
                trajectories=[untrained(self.rollout.steps)] * len(batch_seeds),
                noise=noise,
                inference_mode=self.merged,
            )

    def _texts(self, prompt: str, count: int) -> tuple[Conditioning, Conditioning]:
        texts = self.validation.texts
        if texts is not None:
            conditioning, empty = texts.conditioning([prompt], among=[prompt])
        else:
            with self.autocast():
                conditioning = self.family.encode_text([prompt])
                empty = self.family.encode_text([EMPTY], among=[prompt])
        return conditioning.repeated(count), empty

    def _distance(self, prompt: str, latents: Tensor) -> Tensor:
        """Return the mean squared difference to the base model's noise predictions, (B,).

        The base model encodes the prompt itself, because text encoders or embeddings may be
        trained.
        """
        assert self.base_model is not None
        process = self.family.process.to(self.device)
        schedule = process.levels
        levels = [int(level * schedule.steps) for level in DISTANCE_LEVELS]
        noisy = []
        for place, level in enumerate(levels):
            generator = seeds.generator(self.validation.first_seed, "distance", place)
            noise = to_device(torch.randn(latents.shape[1:], generator=generator), self.device)
            noisy.append(schedule.add_noise(latents, noise, self._timesteps(level, len(latents))))
        now = self._predicted(prompt, noisy, levels)
        with self.base_model():  # entered once: swapping a whole model's weights is slow
            before = self._predicted(prompt, noisy, levels)
        distances = []
        for level, trained, base in zip(levels, now, before, strict=True):
            squares = (trained - base).square().mean(dim=(1, 2, 3))
            if process.prediction != "epsilon":
                # The noise is signal * v plus a fraction of x, so noise predictions differ by the
                # difference of the velocity predictions times the signal.
                squares = squares * schedule.signal[level] ** 2
            distances.append(squares)
        return torch.stack(distances).mean(dim=0)

    def _predicted(
        self, prompt: str, noisy: Sequence[Tensor], levels: Sequence[int]
    ) -> list[Tensor]:
        """Return the current predictions for latents, each (B, 4, h, w), at timesteps."""
        count = len(noisy[0])
        conditioning, _ = self._texts(prompt, count)
        time_ids = time_ids_of(self.validation.size, count)
        with self.autocast():
            return [
                self.family.predict(
                    latents,
                    self.family.process.to(self.device).network_times(
                        self._timesteps(level, count)
                    ),
                    conditioning,
                    time_ids=time_ids,
                )
                for latents, level in zip(noisy, levels, strict=True)
            ]

    def _timesteps(self, level: int, count: int) -> Tensor:
        """Return timesteps, (B,), int64, on the device."""
        return to_device(torch.full((count,), level), self.device)
