"""Pictures drawn so that a score's gradient can flow back through chosen steps of their drawing.

Source of the whole: Prabhudesai et al. 2023, arXiv:2310.03739; of detached inputs: Wu et al. 2024,
arXiv:2405.00760; of guidance: Ho & Salimans 2022, arXiv:2207.12598.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.diffusion.ddim import ddim_steps
from modules.interfaces import Conditioning, Family
from modules.memory.layers.checkpointing import create_checkpointed_forward
from modules.memory.to_device import sent

Noise = Callable[[int, int], Tensor]
"""Of a picture's place in the batch and a step: standard normal noise, (4, h, w), on the CPU."""
Look = Callable[[int, int, Tensor], None]
"""Told a picture's place, a step, and the latents that this begins with, (1, 4, h, w)."""


@dataclass(frozen=True)
class Course:
    """Which way a picture's drawing takes.

    trained: for each step, whether its prediction carries a gradient. end: the step from which the
    picture is foretold at once; as many as there are steps for a drawing that goes on to its end.
    begin: the step that it begins with. detaches_inputs: whether no gradient goes through what the
    UNet is given; then it reaches each prediction by the latents alone.
    """

    trained: tuple[bool, ...]
    end: int
    begin: int = 0
    detaches_inputs: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= min(self.end, len(self.trained) - 1):
            raise ValueError(f"a drawing from step {self.begin} to {self.end} has no step")
        if self.end > len(self.trained):
            raise ValueError(f"a drawing of {len(self.trained)} steps cannot end at {self.end}")

    @property
    def last(self) -> int:
        """The last step that the UNet is asked in."""
        return min(self.end, len(self.trained) - 1)

    @property
    def trained_steps(self) -> tuple[int, ...]:
        """The numbers of the steps that carry a gradient."""
        return tuple(n for n in range(self.begin, self.last + 1) if self.trained[n])


def untrained(steps: int) -> Course:
    """A whole drawing without a gradient."""
    return Course((False,) * steps, steps)


@dataclass
class _Image:
    """A picture on its way: latents and frame as of a batch of one; step: the one that follows."""

    place: int
    course: Course
    latents: Tensor
    text: Conditioning
    frame: Tensor
    step: int

    def goes_on(self, *, trained: bool) -> bool:
        """Whether there is a following step, with a gradient or without."""
        return self.step <= self.course.last and self.course.trained[self.step] == trained


class Rollout:
    """Draws by DDIM, for a config's steps and guidance.

    eta: see `ddim_steps`. guidance: 1 asks the prompt alone, and then nothing else is computed.
    guidance_gradient: whether a gradient also goes through the half without a prompt. checkpoint:
    whether each trained call of the UNet, and of the decoder, keeps its inputs only and is computed
    again in backward; then memory hardly depends on how many steps are trained.
    Everything is to be called under the engine's autocast.
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
        self.table = ddim_steps(family.schedule.settings, family.prediction, steps=steps, eta=eta)
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
        """How many steps a whole drawing has."""
        return len(self.table)

    def draw(
        self,
        start: Tensor,
        *,
        conditioning: Conditioning,
        empty: Conditioning | None,
        frames: Tensor,
        courses: Sequence[Course],
        noise: Noise,
        quick: Callable[[], AbstractContextManager[None]] = nullcontext,
        look: Look = lambda *_: None,
    ) -> Tensor:
        """The finished latents, (B, 4, h, w), in the dtype of `start`, on the train device.

        start: (B, 4, h, w), standard normal for a drawing from the beginning. conditioning: of B
        prompts; empty: of none, (1, T, D), as long; None where there is no guidance. frames: (B,
        6). courses: one for each. noise: what is added after a step, by its number. quick: the
        context of steps without a gradient, `Method.merged`; entered once for as many as follow
        each other in all pictures. Pictures do not depend on each other: each goes its own course,
        and what it becomes is the same, up to rounding, whatever else is in the batch.
        There is no graph of what comes before a picture's first trained step.
        """
        if self._guidance != 1 and empty is None:
            raise ValueError("guidance needs the conditioning of no prompt")
        has_gradient = torch.is_grad_enabled()
        none = None if self._guidance == 1 or empty is None else _placed(empty, self._device)
        images = self._images(start, conditioning, frames, courses)
        while any(image.step <= image.course.last for image in images):
            with quick() if _those(images, trained=False) else nullcontext():
                while group := _those(images, trained=False):
                    with torch.no_grad():
                        predicted = self._guided(group, none)
                    with torch.set_grad_enabled(has_gradient):
                        self._advance(group, predicted, noise, look)
            while group := _those(images, trained=True):
                self._advance(group, self._guided(group, none), noise, look)
        return torch.cat([image.latents for image in images])

    def decode(self, latents: Tensor) -> Tensor:
        """The pictures, (B, 3, 8h, 8w), float32 in [0, 1], where the VAE is.

        One by one, since each takes much memory. Clamped: where a picture is as dark or as bright
        as can be, there is no gradient.
        """
        return torch.cat([self._decode(self._family, latent) for latent in _each(latents)])

    def noised(self, latents: Tensor, noise: Tensor, *, step: int) -> Tensor:
        """Finished latents under so much noise as a step begins with, (B, 4, h, w)."""
        entry = self.table[step]
        return entry.signal * latents + entry.spread * sent(noise, latents.device, latents.dtype)

    def noise_in(
        self,
        latents: Tensor,
        steps: Sequence[int],
        *,
        conditioning: Conditioning,
        frames: Tensor,
    ) -> Tensor:
        """The noise that the model sees in latents, asked with their prompts alone, (B, 4, h, w).

        latents: (B, 4, h, w), what each picture's step begins with. Of a model that predicts
        velocity: the noise that follows from it.
        """
        entries = [self.table[step] for step in steps]
        predicted = self._predict(
            self._family,
            latents,
            self._timesteps(steps),
            [_placed(conditioning, self._device)],
            sent(frames, self._device),
        )
        rows = zip(entries, _each(latents), _each(predicted), strict=True)
        return torch.cat([entry.noise.of(latent, own) for entry, latent, own in rows])

    def _images(
        self, start: Tensor, conditioning: Conditioning, frames: Tensor, courses: Sequence[Course]
    ) -> list[_Image]:
        texts = _rows(_placed(conditioning, self._device))
        own_frames = _each(sent(frames, self._device))
        latents = _each(sent(start, self._device))
        together = zip(courses, latents, texts, own_frames, strict=True)
        return [
            _Image(place, course, latent, text, frame, course.begin)
            for place, (course, latent, text, frame) in enumerate(together)
        ]

    def _guided(self, group: Sequence[_Image], empty: Conditioning | None) -> Tensor:
        """What the UNet predicts of each picture at its own step, (n, 4, h, w)."""
        latents = torch.cat(
            [p.latents.detach() if p.course.detaches_inputs else p.latents for p in group]
        )
        timesteps = self._timesteps([image.step for image in group])
        frames = torch.cat([image.frame for image in group])
        texts = [image.text for image in group]
        if empty is None:
            return self._predict(self._family, latents, timesteps, texts, frames)
        nothing = [empty] * len(group)
        if self._guidance_gradient or not torch.is_grad_enabled():
            without, prompted = self._predict(
                self._family,
                torch.cat([latents, latents]),
                torch.cat([timesteps, timesteps]),
                nothing + texts,
                torch.cat([frames, frames]),
            ).chunk(2)
            return without + self._guidance * (prompted - without)
        # Not on the quick path: to merge for a single call takes about what it saves.
        with torch.no_grad():
            without = _predict(self._family, latents, timesteps, nothing, frames)
        prompted = self._predict(self._family, latents, timesteps, texts, frames)
        return without + self._guidance * (prompted - without)

    def _advance(
        self, group: Sequence[_Image], predicted: Tensor, noise: Noise, look: Look
    ) -> None:
        """Takes each picture's step, or foretells it where its course ends."""
        for image, own in zip(group, _each(predicted), strict=True):
            place, number, latents = image.place, image.step, image.latents
            look(place, number, latents)
            step = self.table[number]
            if number == image.course.end:
                image.latents = step.clean.of(latents, own)
            else:
                fresh = (
                    sent(noise(place, number), self._device, latents.dtype) if step.fresh else None
                )
                image.latents = step.next(latents, own, fresh)
            image.step += 1

    def _timesteps(self, steps: Sequence[int]) -> Tensor:
        """(n,), int64, on the train device."""
        return sent(torch.tensor([self.table[step].timestep for step in steps]), self._device)


def _those(images: Sequence[_Image], *, trained: bool) -> list[_Image]:
    return [image for image in images if image.goes_on(trained=trained)]


def _predict(
    family: Family,
    latents: Tensor,
    timesteps: Tensor,
    texts: Sequence[Conditioning],
    frames: Tensor,
) -> Tensor:
    """What the UNet predicts, (n, 4, h, w).

    texts: one for each, put together in here, so that a checkpoint keeps no copies of them.
    """
    return family.predict(latents, timesteps, _joined(texts), frames=frames)


def _decode(family: Family, latents: Tensor) -> Tensor:
    return (family.decode_latents(latents) + 1) / 2


def _placed(conditioning: Conditioning, device: torch.device) -> Conditioning:
    pooled = None if conditioning.pooled is None else sent(conditioning.pooled, device)
    return Conditioning(sent(conditioning.hidden, device), pooled)


def _rows(conditioning: Conditioning) -> list[Conditioning]:
    """That of each picture, as of a batch of one."""
    hidden = _each(conditioning.hidden)
    if conditioning.pooled is None:
        return [Conditioning(own) for own in hidden]
    pooled = _each(conditioning.pooled)
    return [Conditioning(own, row) for own, row in zip(hidden, pooled, strict=True)]


def _each(tensor: Tensor) -> tuple[Tensor, ...]:
    """Its rows, each as of a batch of one."""
    return tensor.chunk(len(tensor))


def _joined(rows: Sequence[Conditioning]) -> Conditioning:
    pooled = [row.pooled for row in rows if row.pooled is not None]
    return Conditioning(
        torch.cat([row.hidden for row in rows]), torch.cat(pooled) if pooled else None
    )
