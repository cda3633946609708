"""Reward training: pictures are drawn and scored, and the score's gradient goes back through it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from modules import seeds
from modules.diffusion.draws import Draws
from modules.interfaces import (
    ANCHOR,
    LAST_STEPS,
    REWARD,
    REWARD_PREFIX,
    Batch,
    Conditioning,
    Family,
    Loss,
    Objective,
    Probe,
    PromptBatch,
)
from modules.memory.to_device import sent
from modules.objectives.trajectories import courses_of, last_step_again
from modules.rewards.mixer import Mixer, Scores
from modules.sampling.rollout import Course, Rollout
from modules.sampling.sampler import LATENT_CHANNELS, LATENT_SCALE
from onetrainer.config.rewards.algorithms import DraftLv
from onetrainer.config.rewards.alignprop import AlignProp as Section

START, NOISE, ANCHORED = "reward-start", "reward-noise", "reward-anchor"
"""What draws are for: a drawing's first noise, the noise of its steps, the anchor's step."""


@dataclass(frozen=True)
class _Told:
    """What a microbatch is told in every call of the UNet: prompts and no prompt, and frames."""

    conditioning: Conditioning
    empty: Conditioning | None
    frames: Tensor


@dataclass(frozen=True)
class _Drawn:
    """What came of a microbatch's drawings.

    latents: (B, 4, h, w), with their graph. anchors: the step of each picture that is compared with
    the untouched model, by place; anchored: what it began with, (1, 4, h, w), without a graph.
    """

    latents: Tensor
    courses: Sequence[Course]
    anchors: dict[int, int]
    anchored: dict[int, Tensor]


class AlignProp:
    """Minus the reward of drawn pictures (Prabhudesai et al. 2023, arXiv:2310.03739).

    Its relatives differ in the steps that the gradient goes through; see `alignprop_courses`.
    Every picture draws what it needs from (seed, purpose, step, position), so a step is the same
    however it is cut into microbatches. A microbatch of the user's pictures is learnt by
    `denoising`, and so are held-out ones measured.

    mixer: the rewards as they are at the time; what they are measured by becomes known in training.
    merged, untouched: of the method; see `modules.interfaces.Method`.
    """

    def __init__(
        self,
        family: Family,
        *,
        section: Section,
        mixer: Callable[[], Mixer],
        rollout: Rollout,
        denoising: Objective[Batch],
        device: torch.device,
        untouched: Callable[[], AbstractContextManager[None]] = nullcontext,
        merged: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._family = family
        self._section = section
        self._mixer = mixer
        self._rollout = rollout
        self._denoising = denoising
        self._device = device
        self._untouched = untouched
        self._quick = merged

    def loss(self, batch: Batch | PromptBatch, *, seed: int, step: int) -> Loss:
        """The loss of a microbatch; to be called under the engine's autocast.

        `per_item` is minus the reward; it and the scores are those of the pictures as drawn.
        """
        if isinstance(batch, Batch):
            return self._denoising.loss(batch, seed=seed, step=step)
        draws = Draws(seed, step, batch.positions)
        told = self._told(batch)
        drawn = self._drawn(batch, told, draws)
        scores = self._scored(drawn.latents, batch)
        totals = [scores.total, *self._again(drawn.latents, batch, told, draws)]
        counted = -torch.stack(totals).mean(dim=0)
        reward = scores.total.detach()
        known = {REWARD: reward}
        known |= {REWARD_PREFIX + name: own for name, own in scores.by_name.items()}
        known[LAST_STEPS] = self._moved(
            torch.tensor([float(len(course.trained_steps)) for course in drawn.courses])
        )
        if self._section.keep.anchor:
            distances = self._distances(drawn, batch, told)
            counted = counted + self._section.keep.anchor * distances.to(counted.device)
            known[ANCHOR] = distances.detach()
        return Loss(counted.sum() * batch.weight, -reward, known)

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        return self._denoising.validation(batch, probe)

    def _told(self, batch: PromptBatch) -> _Told:
        conditioning, empty = batch.conditioning, batch.empty
        if conditioning is None:
            # One call for all, so that all are equally long.
            both = self._family.encode_text((*batch.prompts, ""), among=batch.step_prompts)
            conditioning, empty = _rows(both, slice(-1)), _rows(both, slice(-1, None))
        return _Told(conditioning, empty, batch.frames)

    def _drawn(self, batch: PromptBatch, told: _Told, draws: Draws) -> _Drawn:
        start = self._moved(draws.normal(START, _shape(batch)))
        courses = courses_of(self._section.algorithm, steps=self._rollout.steps, draws=draws)
        anchors = self._anchors(courses, draws)
        anchored: dict[int, Tensor] = {}

        def look(place: int, number: int, latents: Tensor) -> None:
            if number == anchors.get(place):
                anchored[place] = latents.detach()

        latents = self._rollout.draw(
            start,
            conditioning=told.conditioning,
            empty=told.empty,
            frames=told.frames,
            courses=courses,
            noise=partial(_noise, draws, _shape(batch)),
            quick=self._quick,
            look=look,
        )
        return _Drawn(latents, courses, anchors, anchored)

    def _scored(self, latents: Tensor, batch: PromptBatch) -> Scores:
        return self._mixer().score(self._rollout.decode(latents), batch.prompts)

    def _again(
        self, finished: Tensor, batch: PromptBatch, told: _Told, draws: Draws
    ) -> list[Tensor]:
        """The rewards of further last steps of the same pictures, each (B,); mostly there is none.

        Each has a graph of its own, so that the gradient of their mean has less variance.
        Source: Clark et al. 2023, arXiv:2309.17400, section 4.2 (DRaFT-LV).
        """
        algorithm, mixer = self._section.algorithm, self._mixer().trained()
        if not isinstance(algorithm, DraftLv):
            return []
        totals = []
        for number in range(algorithm.gradients_per_image - 1):
            latents = self._last_step_again(number, finished.detach(), batch, told, draws)
            images = self._rollout.decode(latents)
            totals.append(mixer.score(images, batch.prompts).total)
        return totals

    def _last_step_again(
        self, number: int, finished: Tensor, batch: PromptBatch, told: _Told, draws: Draws
    ) -> Tensor:
        """Finished latents under new noise, and out of it again; (B, 4, h, w)."""
        noise = partial(_noise, draws, _shape(batch))
        steps = self._rollout.steps
        # Behind the numbers of the drawing's own steps there are two for each.
        first, second = steps + 2 * number, steps + 2 * number + 1
        noises = torch.stack([noise(place, first) for place in range(len(finished))])
        return self._rollout.draw(
            self._rollout.noised(finished, noises, step=steps - 1),
            conditioning=told.conditioning,
            empty=told.empty,
            frames=told.frames,
            courses=[last_step_again(steps)] * len(finished),
            noise=lambda place, _: noise(place, second),
        )

    def _anchors(self, courses: Sequence[Course], draws: Draws) -> dict[int, int]:
        """The step of each picture that is compared with the untouched model, by place."""
        if not self._section.keep.anchor:
            return {}
        chances = draws.chances(ANCHORED)
        return {
            place: course.trained_steps[int(chance * len(course.trained_steps))]
            for place, (course, chance) in enumerate(zip(courses, chances, strict=True))
        }

    def _distances(self, drawn: _Drawn, batch: PromptBatch, told: _Told) -> Tensor:
        """How far the model's noise predictions are from the untouched model's, (B,).

        The mean squared difference at a trained step of each picture, with its prompt alone; what
        the step began with counts as given. Up to a factor of the timestep it is the divergence of
        what the two models would make of it: Fan et al. 2023, arXiv:2305.16381 (DPOK).
        """
        places = sorted(drawn.anchors)
        latents = torch.cat([drawn.anchored[place] for place in places])
        steps = [drawn.anchors[place] for place in places]
        own = self._untouched_noise(latents, steps, batch)
        seen = self._rollout.noise_in(
            latents, steps, conditioning=told.conditioning, frames=told.frames
        )
        return (seen - own).square().mean(dim=(1, 2, 3))

    def _untouched_noise(self, latents: Tensor, steps: Sequence[int], batch: PromptBatch) -> Tensor:
        device = self._device.type
        # Autocast would remember casts of the untouched weights for the whole context.
        uncached = torch.autocast(
            device,
            dtype=torch.get_autocast_dtype(device),
            enabled=torch.is_autocast_enabled(device),
            cache_enabled=False,
        )
        with self._untouched(), torch.no_grad(), uncached:
            conditioning = batch.conditioning or self._family.encode_text(
                batch.prompts, among=batch.step_prompts
            )
            return self._rollout.noise_in(
                latents, steps, conditioning=conditioning, frames=batch.frames
            )

    def _moved(self, tensor: Tensor) -> Tensor:
        return sent(tensor, self._device)


def _shape(batch: PromptBatch) -> torch.Size:
    """That of a picture's latents."""
    width, height = batch.size
    return torch.Size((LATENT_CHANNELS, height // LATENT_SCALE, width // LATENT_SCALE))


def _noise(draws: Draws, shape: torch.Size, place: int, number: int) -> Tensor:
    """The noise of a picture's step, (4, h, w), float32, on the CPU."""
    generator = seeds.generator(draws.seed, NOISE, draws.step, draws.positions[place], number)
    return torch.randn(shape, generator=generator)


def _rows(conditioning: Conditioning, rows: slice) -> Conditioning:
    pooled = None if conditioning.pooled is None else conditioning.pooled[rows]
    return Conditioning(conditioning.hidden[rows], pooled)
