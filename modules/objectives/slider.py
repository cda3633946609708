"""Concept sliders: the strength of an adapter moves predictions along directions of prompts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from modules.data.prompts import EMPTY, EncodedPrompts, time_ids_of
from modules.diffusion.draws import Draws
from modules.interfaces import Batch, Conditioning, Family, Loss, Microbatch, Probe, PromptBatch
from modules.memory.to_device import to_device
from modules.objectives.inputs import Inputs, PromptInputs
from modules.sampling.rollout import Rollout, untrained
from onetrainer.config.objectives.slider import Direction
from onetrainer.config.objectives.slider import Slider as Section
from onetrainer.metrics.slider import Shift

START, STEPS = "slider-start", "slider-steps"
"""Seed purposes: initial noise, and the number of denoising steps."""


@dataclass(frozen=True)
class _Point:
    """Where predictions are compared: partly denoised latents, (B, C, h, w), and their times."""

    directions: Sequence[Direction]
    latents: Tensor
    times: Tensor
    time_ids: Tensor


class Slider:
    """The distance of the target's prediction to one that is moved along a direction.

    At the full strength ±s the goal is ε(neutral) ± η (ε(positive) - ε(negative)), all predicted
    by the base model at latents that the adapted model has denoised in part (Gandikota et al.
    2023, arXiv:2311.12092, equation 7, and arXiv:2303.07345 for erasing). The formula is linear,
    so it holds for noise, velocity and flow alike. Steps take the ends in turn; every image draws
    its random numbers from (seed, purpose, step, position).

    Args:
        texts: Encoded prompts; None if they are encoded in every step.
        at_strength: The method's context in which adapters have a strength; 0 is the base model.
        inference: A context without dropout and gradients.
    """

    def __init__(
        self,
        family: Family,
        *,
        section: Section,
        texts: EncodedPrompts | None,
        device: torch.device,
        at_strength: Callable[[float], AbstractContextManager[None]],
        inference: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._family = family
        self._section = section
        self._texts = texts
        self._device = device
        self._at_strength = at_strength
        self._inference = inference
        self._by_label = {direction.label: direction for direction in section.directions}
        self._prompts = prompts_of(section.directions)
        self._rollout = Rollout(
            family,
            steps=section.steps,
            eta=0,
            guidance=section.denoising_guidance,
            checkpoint=False,
            train_device=device,
            offload_device=device,
        )

    def draw(self, batch: Microbatch, *, seed: int, step: int) -> PromptInputs:
        assert isinstance(batch, PromptBatch)
        return PromptInputs(batch, seed, step)

    def compute(self, inputs: Inputs) -> Loss:
        """Compute the loss of a microbatch, whose prompts are the labels of directions."""
        assert isinstance(inputs, PromptInputs)
        batch, seed, step = inputs.batch, inputs.seed, inputs.step
        signs = self._section.signs
        sign = signs[step % len(signs)]
        trained = partial(self._at_strength, sign * self._section.strength)
        directions = [self._by_label[label] for label in batch.prompts]
        with trained():
            point = self._denoise(directions, batch.time_ids, Draws(seed, step, batch.positions))
        neutral, way = self._base_predictions(point)
        with trained():
            predicted = self._predict(point, [each.target for each in directions])
        per_item = (predicted - (neutral + sign * way)).square().mean(dim=(1, 2, 3))
        return Loss(per_item.sum() * batch.weight, per_item.detach(), recomputation=trained)

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        raise ValueError("concept sliders have no validation images")

    def measure(self, number: int, *, seed: int) -> Mapping[float, Shift]:
        """Return the shift at each trained strength, at latents that the base model denoises.

        number: Of the latents, which are the same in every call; directions take them in turn.
        """
        direction = self._section.directions[number % len(self._section.directions)]
        time_ids = time_ids_of((self._section.width, self._section.height), 1)
        with self._at_strength(0):
            point = self._denoise([direction], time_ids, Draws(seed, number, (0,)))
        neutral, way = self._base_predictions(point)
        shifts = {}
        with self._inference():
            with self._at_strength(0):
                before = self._predict(point, [direction.target])
            for sign in self._section.signs:
                strength = sign * self._section.strength
                with self._at_strength(strength):
                    after = self._predict(point, [direction.target])
                shifts[strength] = Shift(
                    loss=float((after - neutral - sign * way).square().mean()),
                    along=float((sign * way * (after - before)).sum()),
                    length=float(way.square().sum()),
                )
        return shifts

    def _denoise(self, directions: Sequence[Direction], time_ids: Tensor, draws: Draws) -> _Point:
        """Denoise the targets by some steps, at the strength that holds now."""
        section = self._section
        shape = self._family.spec.latent_shape(section.width, section.height)
        start = draws.normal(START, torch.Size(shape))
        counts = [1 + int(chance * (section.steps - 1)) for chance in draws.chances(STEPS)]
        with self._inference():
            latents = self._rollout.generate(
                start,
                conditioning=self._text([each.target for each in directions]),
                empty=self._text([EMPTY]),
                time_ids=time_ids,
                trajectories=[untrained(count) for count in counts],
                noise=lambda place, _: start[place],  # without eta no step adds any
            )
        times = torch.tensor([self._rollout.table[count].timestep for count in counts])
        time_ids = to_device(time_ids, self._device)
        return _Point(directions, latents, to_device(times, self._device), time_ids)

    def _base_predictions(self, point: _Point) -> tuple[Tensor, Tensor]:
        """Return the base model's neutral prediction, and the way to the positive end."""
        prompts = [
            *(each.start for each in point.directions),
            *(each.positive for each in point.directions),
            *(each.negative for each in point.directions),
        ]
        with self._inference(), self._at_strength(0):
            neutral, positive, negative = self._predict(point, prompts).chunk(3)
        signs = [1 if each.action == "enhance" else -1 for each in point.directions]
        factors = neutral.new_tensor(signs).view(-1, 1, 1, 1) * self._section.guidance
        return neutral, factors * (positive - negative)

    def _predict(self, point: _Point, prompts: Sequence[str]) -> Tensor:
        """Predict for the point's latents with each prompt, as often as there are more of these."""
        times = len(prompts) // len(point.latents)
        return self._family.predict(
            point.latents.repeat(times, 1, 1, 1),
            point.times.repeat(times),
            self._text(prompts),
            time_ids=point.time_ids.repeat(times, 1),
        )

    def _text(self, prompts: Sequence[str]) -> Conditioning:
        """Return the prompts' conditioning, padded to the longest of all directions' prompts."""
        if self._texts is None:
            return self._family.encode_text(prompts, among=self._prompts)
        return self._texts.conditioning(prompts, among=self._prompts)[0].to(self._device)


def prompts_of(directions: Sequence[Direction]) -> tuple[str, ...]:
    """Return every prompt of the directions once, the empty one first."""
    texts = [(each.target, each.positive, each.negative, each.start) for each in directions]
    return tuple(dict.fromkeys([EMPTY, *(prompt for each in texts for prompt in each)]))
