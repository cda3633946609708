"""Reward training with gradients: images are generated and scored, and the score backpropagated."""

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
    Microbatch,
    Probe,
    PromptBatch,
)
from modules.memory.precision import uncached_autocast
from modules.memory.to_device import to_device
from modules.objectives.inputs import Inputs, Objective, PromptInputs
from modules.objectives.trajectories import repeated_last_step, trajectories_of
from modules.rewards.mixer import Mixer
from modules.sampling.rollout import Rollout, Trajectory
from onetrainer.config.rewards.algorithms import DraftLv
from onetrainer.config.rewards.alignprop import AlignProp as Section

START, NOISE, ANCHORED = "reward-start", "reward-noise", "reward-anchor"
"""Seed purposes: initial noise, the noise of steps, and the choice of the anchor's step."""


@dataclass(frozen=True)
class _CallInputs:
    """Inputs of every UNet call: conditioning of prompts and of no prompt, and image sizes."""

    conditioning: Conditioning
    empty: Conditioning | None
    time_ids: Tensor


@dataclass(frozen=True)
class _Generated:
    """Generated latents of a microbatch, and what the anchor needs.

    latents: (B, 4, h, w), with their graph. anchor_steps: the step of each image that is compared
    with the base model, by position; anchor_latents: its input, (1, 4, h, w), without a graph.
    """

    latents: Tensor
    trajectories: Sequence[Trajectory]
    anchor_steps: dict[int, int]
    anchor_latents: dict[int, Tensor]


class AlignProp:
    """Minus the reward of generated images (Prabhudesai et al. 2023, arXiv:2310.03739).

    Related algorithms differ in the steps that carry a gradient; see `trajectories_of`.
    Every image draws its random numbers from (seed, purpose, step, position), so a step is
    independent of microbatch size. A microbatch of the user's images trains by `denoising`, which
    also computes the validation loss.

    mixer: the rewards; their normalization is determined in training.
    merged, base_model: of the method; see `modules.interfaces.Method`.
    """

    def __init__(
        self,
        family: Family,
        *,
        section: Section,
        mixer: Mixer,
        rollout: Rollout,
        denoising: Objective,
        device: torch.device,
        base_model: Callable[[], AbstractContextManager[None]] = nullcontext,
        merged: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._family = family
        self._section = section
        self._mixer = mixer
        self._rollout = rollout
        self._denoising = denoising
        self._device = device
        self._base_model = base_model
        self._merged = merged

    def draw(self, batch: Microbatch, *, seed: int, step: int) -> Inputs:
        if isinstance(batch, Batch):
            return self._denoising.draw(batch, seed=seed, step=step)
        return PromptInputs(batch, seed, step)

    def compute(self, inputs: Inputs) -> Loss:
        """Compute the loss of a microbatch; call it under the engine's autocast.

        `per_item` is minus the reward; it and the scores are those of the images as generated.
        """
        if not isinstance(inputs, PromptInputs):
            return self._denoising.compute(inputs)
        return self._prompt_loss(
            inputs.batch, Draws(inputs.seed, inputs.step, inputs.batch.positions)
        )

    def _prompt_loss(self, batch: PromptBatch, draws: Draws) -> Loss:
        inputs = self._inputs(batch)
        generated = self._generate(batch, inputs, draws)
        scores = self._mixer.score(self._rollout.decode(generated.latents), batch.prompts)
        totals = [scores.total, *self._repeated_totals(generated.latents, batch, inputs, draws)]
        loss = -torch.stack(totals).mean(dim=0)
        reward = scores.total.detach()
        metrics = {REWARD: reward}
        metrics |= {REWARD_PREFIX + name: each for name, each in scores.by_name.items()}
        metrics[LAST_STEPS] = self._to_device(
            torch.tensor([float(len(each.trained_steps)) for each in generated.trajectories])
        )
        if self._section.keep.anchor:
            distances = self._anchor_distances(generated, batch, inputs)
            loss = loss + self._section.keep.anchor * distances.to(loss.device)
            metrics[ANCHOR] = distances.detach()
        return Loss(loss.sum() * batch.weight, -reward, metrics)

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        return self._denoising.validation(batch, probe)

    def _inputs(self, batch: PromptBatch) -> _CallInputs:
        conditioning, empty = batch.conditioning, batch.empty
        if conditioning is None:
            # In one call, so that all have the same length.
            both = self._family.encode_text((*batch.prompts, ""), among=batch.step_prompts)
            conditioning, empty = both.rows(slice(-1)), both.rows(slice(-1, None))
        return _CallInputs(conditioning, empty, batch.time_ids)

    def _generate(self, batch: PromptBatch, inputs: _CallInputs, draws: Draws) -> _Generated:
        start = self._to_device(draws.normal(START, self._shape(batch)))
        trajectories = trajectories_of(
            self._section.algorithm, steps=self._rollout.steps, draws=draws
        )
        anchor_steps = self._anchor_steps(trajectories, draws)
        anchor_latents: dict[int, Tensor] = {}

        def save_anchor(position: int, number: int, latents: Tensor) -> None:
            if number == anchor_steps.get(position):
                anchor_latents[position] = latents.detach()

        latents = self._rollout.generate(
            start,
            conditioning=inputs.conditioning,
            empty=inputs.empty,
            time_ids=inputs.time_ids,
            trajectories=trajectories,
            noise=partial(_noise, draws, self._shape(batch)),
            inference_mode=self._merged,
            on_step=save_anchor,
        )
        return _Generated(latents, trajectories, anchor_steps, anchor_latents)

    def _repeated_totals(
        self, finished: Tensor, batch: PromptBatch, inputs: _CallInputs, draws: Draws
    ) -> list[Tensor]:
        """Return the rewards of repeated last steps of the same images, each (B,), if any.

        Each has a graph of its own, so that the gradient of their mean has less variance.
        Source: Clark et al. 2023, arXiv:2309.17400, section 4.2 (DRaFT-LV).
        """
        algorithm, mixer = self._section.algorithm, self._mixer.trained()
        if not isinstance(algorithm, DraftLv):
            return []
        totals = []
        for number in range(algorithm.gradients_per_image - 1):
            latents = self._repeat_last_step(number, finished.detach(), batch, inputs, draws)
            images = self._rollout.decode(latents)
            totals.append(mixer.score(images, batch.prompts).total)
        return totals

    def _repeat_last_step(
        self, number: int, finished: Tensor, batch: PromptBatch, inputs: _CallInputs, draws: Draws
    ) -> Tensor:
        """Add new noise to finished latents and run the last step; return (B, 4, h, w)."""
        noise = partial(_noise, draws, self._shape(batch))
        steps = self._rollout.steps
        # Two noise numbers per repetition, after those of the trajectory's own steps.
        first, second = steps + 2 * number, steps + 2 * number + 1
        noises = torch.stack([noise(position, first) for position in range(len(finished))])
        return self._rollout.generate(
            self._rollout.add_noise(finished, noises, step=steps - 1),
            conditioning=inputs.conditioning,
            empty=inputs.empty,
            time_ids=inputs.time_ids,
            trajectories=[repeated_last_step(steps)] * len(finished),
            noise=lambda position, _: noise(position, second),
        )

    def _anchor_steps(self, trajectories: Sequence[Trajectory], draws: Draws) -> dict[int, int]:
        """Draw the step of each image that is compared with the base model, by position."""
        if not self._section.keep.anchor:
            return {}
        chances = draws.chances(ANCHORED)
        return {
            position: trajectory.trained_steps[int(chance * len(trajectory.trained_steps))]
            for position, (trajectory, chance) in enumerate(zip(trajectories, chances, strict=True))
        }

    def _anchor_distances(
        self, generated: _Generated, batch: PromptBatch, inputs: _CallInputs
    ) -> Tensor:
        """Compute the distance of noise predictions from the base model's, (B,).

        The mean squared difference at a trained step of each image, with its prompt alone; the
        step's input is a constant. Up to a factor of the timestep it is the KL divergence between
        the two models' next latents: Fan et al. 2023, arXiv:2305.16381 (DPOK).
        """
        positions = sorted(generated.anchor_steps)
        latents = torch.cat([generated.anchor_latents[position] for position in positions])
        steps = [generated.anchor_steps[position] for position in positions]
        base = self._base_model_noise(latents, steps, batch)
        predicted = self._rollout.predict_noise(
            latents, steps, conditioning=inputs.conditioning, time_ids=inputs.time_ids
        )
        return (predicted - base).square().mean(dim=(1, 2, 3))

    def _base_model_noise(
        self, latents: Tensor, steps: Sequence[int], batch: PromptBatch
    ) -> Tensor:
        with self._base_model(), torch.no_grad(), uncached_autocast(self._device):
            conditioning = batch.conditioning or self._family.encode_text(
                batch.prompts, among=batch.step_prompts
            )
            return self._rollout.predict_noise(
                latents, steps, conditioning=conditioning, time_ids=batch.time_ids
            )

    def _shape(self, batch: PromptBatch) -> torch.Size:
        """Return the shape of an image's latents."""
        return torch.Size(self._family.spec.latent_shape(*batch.size))

    def _to_device(self, tensor: Tensor) -> Tensor:
        return to_device(tensor, self._device)


def _noise(draws: Draws, shape: torch.Size, position: int, number: int) -> Tensor:
    """Draw the noise of an image's step, (4, h, w), float32, on the CPU."""
    generator = seeds.generator(draws.seed, NOISE, draws.step, draws.positions[position], number)
    return torch.randn(shape, generator=generator)
