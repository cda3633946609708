"""Differentiable sampling: gradients of a score flow back through selected sampling steps.

Source: Prabhudesai et al. 2023, arXiv:2310.03739; of detached inputs: Wu et al. 2024,
arXiv:2405.00760; of guidance: Ho & Salimans 2022, arXiv:2207.12598.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.interfaces import Conditioning, Family
from modules.memory.layers.checkpointing import create_checkpointed_forward
from modules.memory.to_device import to_device

Noise = Callable[[int, int], Tensor]
"""From an image's index in the batch and a step to normal noise, (4, h, w), on the CPU."""
OnStep = Callable[[int, int, Tensor], None]
"""Called with an image's index, a step, and the latents that it starts with, (1, 4, h, w)."""


@dataclass(frozen=True)
class Trajectory:
    """The steps of an image's sampling, and which of them carry a gradient.

    trained: for each step, whether its prediction carries a gradient. end: the step at which the
    clean image is predicted at once; the number of steps for a complete trajectory. begin: the
    first step. detaches_inputs: whether no gradient flows through the UNet's inputs; then it
    reaches each prediction through the latents alone.
    """

    trained: tuple[bool, ...]
    end: int
    begin: int = 0
    detaches_inputs: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= min(self.end, len(self.trained) - 1):
            raise ValueError(f"a trajectory from step {self.begin} to {self.end} has no step")
        if self.end > len(self.trained):
            raise ValueError(f"a trajectory of {len(self.trained)} steps cannot end at {self.end}")

    @property
    def last(self) -> int:
        """The last step that calls the UNet."""
        return min(self.end, len(self.trained) - 1)

    @property
    def trained_steps(self) -> tuple[int, ...]:
        """The steps that carry a gradient."""
        return tuple(n for n in range(self.begin, self.last + 1) if self.trained[n])


def untrained(steps: int) -> Trajectory:
    """Return a complete trajectory without a gradient."""
    return Trajectory((False,) * steps, steps)


@dataclass
class _Image:
    """An image in progress: latents and sizes as a batch of one; step: the next one."""

    index: int
    trajectory: Trajectory
    latents: Tensor
    text: Conditioning
    time_ids: Tensor
    step: int

    def has_next(self, *, trained: bool) -> bool:
        """Return whether there is a next step, and it carries a gradient if `trained`."""
        return self.step <= self.trajectory.last and self.trajectory.trained[self.step] == trained


class Rollout:
    """Sampling with gradients, for a config's steps and guidance.

    Call every method under the engine's autocast.

    Args:
        family: The model.
        steps: Number of sampling steps.
        eta: See `NoiseProcess.sampling_steps`.
        guidance: 1 computes the prompt's prediction alone.
        guidance_gradient: Whether a gradient also flows through the half without a prompt.
        checkpoint: Whether each trained call of the UNet, and of the decoder, saves its inputs
            only and is recomputed in backward; then memory hardly depends on the trained steps.
        train_device: The device that computes.
        offload_device: The device that saved inputs could be offloaded to.
    """

    def __init__(
        self,
        family: Family,
        *,
        steps: int,
        eta: float,
        guidance: float,
        guidance_gradient: bool = True,
        checkpoint: bool = True,
        train_device: torch.device,
        offload_device: torch.device,
    ) -> None:
        self.table = family.process.sampling_steps(steps, eta=eta)
        self._family = family
        self._guidance = guidance
        self._guidance_gradient = guidance_gradient
        self._device = train_device
        self._predict, self._decode = _predict, _decode
        if checkpoint:
            devices = train_device, offload_device
            self._predict = create_checkpointed_forward(_predict, *devices)
            self._decode = create_checkpointed_forward(_decode, *devices)

    @property
    def steps(self) -> int:
        """Number of steps of a complete trajectory."""
        return len(self.table)

    def generate(
        self,
        start: Tensor,
        *,
        conditioning: Conditioning,
        empty: Conditioning | None,
        time_ids: Tensor,
        trajectories: Sequence[Trajectory],
        noise: Noise,
        inference_mode: Callable[[], AbstractContextManager[None]] = nullcontext,
        on_step: OnStep = lambda *_: None,
    ) -> Tensor:
        """Generate finished latents, (B, 4, h, w), in `start`'s dtype, on the train device.

        Images do not depend on each other: each follows its own trajectory, and its result is the
        same, up to rounding, in any batch. There is no graph of what precedes an image's first
        trained step.

        Args:
            start: (B, 4, h, w), standard normal for a trajectory from the first step.
            conditioning: Of B prompts.
            empty: Of no prompt, (1, T, D), of the same length; None without guidance.
            time_ids: (B, 6).
            trajectories: One per image.
            noise: Returns what is added after a step.
            inference_mode: The context of steps without a gradient, `Method.merged`; entered once
                for consecutive ones of all images.
            on_step: Called before each step of each image.
        """
        if self._guidance != 1 and empty is None:
            raise ValueError("guidance needs the empty prompt's conditioning")
        has_gradient = torch.is_grad_enabled()
        unprompted = None if self._guidance == 1 or empty is None else empty.to(self._device)
        images = self._images(start, conditioning, time_ids, trajectories)
        while any(image.step <= image.trajectory.last for image in images):
            with inference_mode() if _with_next(images, trained=False) else nullcontext():
                while group := _with_next(images, trained=False):
                    with torch.no_grad():
                        predicted = self._guided(group, unprompted)
                    with torch.set_grad_enabled(has_gradient):
                        self._advance(group, predicted, noise, on_step)
            while group := _with_next(images, trained=True):
                self._advance(group, self._guided(group, unprompted), noise, on_step)
        return torch.cat([image.latents for image in images])

    def decode(self, latents: Tensor) -> Tensor:
        """Decode latents to images, (B, 3, 8h, 8w), float32 in [0, 1], on the VAE's device.

        One by one, since each takes much memory. Clamped: there is no gradient where an image is
        as dark or as bright as possible.
        """
        return torch.cat([self._decode(self._family, latent) for latent in _rows(latents)])

    def add_noise(self, latents: Tensor, noise: Tensor, *, step: int) -> Tensor:
        """Add noise to finished latents, as much as a step starts with, (B, 4, h, w)."""
        entry = self.table[step]
        return entry.signal * latents + entry.spread * to_device(
            noise, latents.device, latents.dtype
        )

    def predict_noise(
        self,
        latents: Tensor,
        steps: Sequence[int],
        *,
        conditioning: Conditioning,
        time_ids: Tensor,
    ) -> Tensor:
        """Predict the noise in latents, without guidance, (B, 4, h, w).

        For a model that predicts velocity, the noise follows from it.

        Args:
            latents: (B, 4, h, w), the input of each image's step.
            steps: One per image.
            conditioning: Of the prompts.
            time_ids: (B, 6).
        """
        entries = [self.table[step] for step in steps]
        predicted = self._predict(
            self._family,
            latents,
            self._timesteps(steps),
            [conditioning.to(self._device)],
            to_device(time_ids, self._device),
        )
        rows = zip(entries, _rows(latents), _rows(predicted), strict=True)
        return torch.cat([entry.noise.combine(latent, row) for entry, latent, row in rows])

    def _images(
        self,
        start: Tensor,
        conditioning: Conditioning,
        time_ids: Tensor,
        trajectories: Sequence[Trajectory],
    ) -> list[_Image]:
        text = conditioning.to(self._device)
        texts = [text.rows(slice(index, index + 1)) for index in range(len(start))]
        sizes = _rows(to_device(time_ids, self._device))
        latents = _rows(to_device(start, self._device))
        images = zip(trajectories, latents, texts, sizes, strict=True)
        return [
            _Image(index, trajectory, latent, text, size, trajectory.begin)
            for index, (trajectory, latent, text, size) in enumerate(images)
        ]

    def _guided(self, group: Sequence[_Image], unprompted: Conditioning | None) -> Tensor:
        """Compute the guided prediction of each image at its own step, (n, 4, h, w)."""
        latents = torch.cat(
            [p.latents.detach() if p.trajectory.detaches_inputs else p.latents for p in group]
        )
        timesteps = self._timesteps([image.step for image in group])
        time_ids = torch.cat([image.time_ids for image in group])
        texts = [image.text for image in group]
        if unprompted is None:
            return self._predict(self._family, latents, timesteps, texts, time_ids)
        nothing = [unprompted] * len(group)
        if self._guidance_gradient or not torch.is_grad_enabled():
            without, prompted = self._predict(
                self._family,
                torch.cat([latents, latents]),
                torch.cat([timesteps, timesteps]),
                nothing + texts,
                torch.cat([time_ids, time_ids]),
            ).chunk(2)
            return without + self._guidance * (prompted - without)
        # Without merging: for a single call that takes about what it saves.
        with torch.no_grad():
            without = _predict(self._family, latents, timesteps, nothing, time_ids)
        prompted = self._predict(self._family, latents, timesteps, texts, time_ids)
        return without + self._guidance * (prompted - without)

    def _advance(
        self, group: Sequence[_Image], predicted: Tensor, noise: Noise, on_step: OnStep
    ) -> None:
        """Advance each image by a step, or predict it at once where its trajectory ends."""
        for image, prediction in zip(group, _rows(predicted), strict=True):
            index, number, latents = image.index, image.step, image.latents
            on_step(index, number, latents)
            step = self.table[number]
            if number == image.trajectory.end:
                image.latents = step.clean.combine(latents, prediction)
            else:
                fresh = None
                if step.noise_std:
                    fresh = to_device(noise(index, number), self._device, latents.dtype)
                image.latents = step.next(latents, prediction, fresh)
            image.step += 1

    def _timesteps(self, steps: Sequence[int]) -> Tensor:
        """Return the network's timesteps of steps, (n,), on the train device."""
        return to_device(torch.tensor([self.table[step].timestep for step in steps]), self._device)


def _with_next(images: Sequence[_Image], *, trained: bool) -> list[_Image]:
    return [image for image in images if image.has_next(trained=trained)]


def _predict(
    family: Family,
    latents: Tensor,
    timesteps: Tensor,
    texts: Sequence[Conditioning],
    time_ids: Tensor,
) -> Tensor:
    """Compute the UNet's prediction, (n, 4, h, w).

    texts: one per image, concatenated in here, so that a checkpoint saves no copies of them.
    """
    return family.predict(latents, timesteps, Conditioning.joined(texts), time_ids=time_ids)


def _decode(family: Family, latents: Tensor) -> Tensor:
    return (family.decode_latents(latents) + 1) / 2


def _rows(tensor: Tensor) -> tuple[Tensor, ...]:
    """Split a tensor into rows, each as a batch of one."""
    return tensor.chunk(len(tensor))
