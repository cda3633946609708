"""Predict the noise that was added to a picture."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from modules.diffusion.draws import Draws
from modules.diffusion.losses import errors
from modules.diffusion.masks import Shares, averaged, shares
from modules.diffusion.noise import draw_noise
from modules.diffusion.schedule import at
from modules.diffusion.targets import target
from modules.diffusion.timesteps import uniform, weighted
from modules.interfaces import Batch, Conditioning, Family, LatentMoments, Loss, Probe
from modules.memory.to_device import sent
from modules.objectives.denoising_settings import (
    growth_table,
    loss_mix,
    noise_settings,
    threshold_table,
    timestep_table,
    weight_table,
)
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.objectives.prior import OwnPrediction


@dataclass(frozen=True)
class _Task:
    """What the UNet is given, and what it is to make of it; all on the device.

    noisy, wanted: (B, C, h, w), float32. timesteps: (B,), int64.
    """

    noisy: Tensor
    timesteps: Tensor
    wanted: Tensor


class Denoising:
    """The error of the UNet's prediction (Ho et al. 2020, arXiv:2006.11239, equation 14).

    Every picture draws what it needs from (seed, purpose, step, position), so a step is the same
    however it is cut into microbatches. The effects come in this order:

    1. latent and timestep; the noise with what is mixed into it (`draw_noise`), and the target;
    2. where it is asked for, the untouched model's prediction: in place of a prior picture's
       target, and beside the target outside a mask;
    3. the error of each number (`errors`), with Huber thresholds by timestep;
    4. the mask, and one number for each picture: this is what `Loss.per_item` tells, because it can
       be compared between runs that weigh timesteps and pictures differently;
    5. the timestep's weight, the weight of prior pictures, the picture's share of the step.

    untouched: meanwhile the family computes as it did before training (`Method.untouched`).
    """

    def __init__(
        self,
        family: Family,
        *,
        section: DenoisingSection,
        device: torch.device,
        untouched: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._family = family
        self._masking = section.mask
        self._prior = section.prior
        self._device = device
        self._untouched = untouched
        self._schedule = family.schedule.to(device)
        self._mix = loss_mix(section.loss)
        self._noise = noise_settings(section.noise)
        self._growth = growth_table(section.noise, family.schedule)
        self._timestep_table = timestep_table(section.timesteps, steps=family.schedule.steps)
        self._thresholds = threshold_table(section.loss, self._schedule)
        self._weights = weight_table(section.weighting, family.prediction, self._schedule)

    def loss(self, batch: Batch, *, seed: int, step: int) -> Loss:
        """The loss of a microbatch; to be called under the engine's autocast."""
        draws = Draws(seed, step, batch.positions)
        task = self._task(batch.moments, draws)
        mask = self._mask(batch, draws)
        # Before the training forward: what that keeps for its backward must not be changed by the
        # method's weights being put aside meanwhile.
        own = self._own_prediction(batch, task, mask)
        if own is not None:
            task = self._held_to(own, batch, task)
        conditioning = batch.conditioning or self._family.encode_text(
            batch.captions, among=batch.step_captions
        )
        predicted = self._family.predict(
            task.noisy,
            task.timesteps,
            conditioning,
            frames=batch.frames,
            masked=self._masked(batch),
        ).float()
        per_item = self._per_item(predicted, task, mask, own)
        counted = self._counted(per_item, batch, task.timesteps)
        return Loss(counted.sum() * batch.weight, per_item.detach())

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """The mean squared error where the picture counts, (K,), whatever training measures.

        Under plain noise, without weights of timesteps or anything drawn, at the mean of the
        latent's posterior: so that the numbers of runs with other settings can be compared.
        """
        count = len(probe.levels)
        steps = self._schedule.steps
        timesteps = self._moved(torch.tensor([int(level * steps) for level in probe.levels]))
        latents = self._moved(batch.moments.mean).expand(count, -1, -1, -1)
        noise = self._moved(probe.noise)
        conditioning = batch.conditioning or self._family.encode_text(batch.captions)
        shown = self._masked(batch)
        predicted = self._family.predict(
            self._schedule.add_noise(latents, noise, timesteps),
            timesteps,
            conditioning.repeated(count),
            frames=batch.frames.expand(count, -1),
            masked=None if shown is None else shown.expand(count, -1, -1, -1),
        ).float()
        wanted = target(
            self._family.prediction,
            schedule=self._schedule,
            latents=latents,
            noise=noise,
            timesteps=timesteps,
        )
        squares = (predicted - wanted).square()
        if batch.mask is None:
            return squares.mean(dim=(1, 2, 3))
        counts = shares(self._moved(batch.mask), outside=self._masking.unmasked_weight, prior=0)
        return averaged(squares, None, counts, normalize_area=True)

    def _task(self, moments: LatentMoments, draws: Draws) -> _Task:
        shape = moments.mean.shape[1:]
        latents = moments.drawn(draws.normal("latent", shape))
        timesteps = self._timesteps(draws)
        growth = None if self._growth is None else self._growth[timesteps]
        noise = draw_noise(self._noise, draws, shape=shape, offset_growth=growth)
        latents, timesteps, wanted = map(self._moved, (latents, timesteps, noise.wanted))
        added = wanted if noise.added is noise.wanted else self._moved(noise.added)
        return _Task(
            noisy=self._schedule.add_noise(latents, added, timesteps),
            timesteps=timesteps,
            wanted=target(
                self._family.prediction,
                schedule=self._schedule,
                latents=latents,
                noise=wanted,
                timesteps=timesteps,
            ),
        )

    def _timesteps(self, draws: Draws) -> Tensor:
        """(B,), int64, on the CPU."""
        table, steps = self._timestep_table, self._schedule.steps
        generators = draws.generators("timestep")
        if table is None:
            return torch.cat([uniform(1, steps=steps, generator=each) for each in generators])
        return torch.cat([weighted(1, below=table, generator=each) for each in generators])

    def _mask(self, batch: Batch, draws: Draws) -> Shares | None:
        """What of the pictures counts, on the CPU; None if all of all of them does."""
        if batch.mask is None:
            return None
        mask = batch.mask
        if self._masking.unmasked_probability:
            chances = draws.chances("unmasked")
            without = [chance < self._masking.unmasked_probability for chance in chances]
            mask = torch.where(torch.tensor(without).view(-1, 1, 1, 1), torch.ones(()), mask)
        return shares(mask, outside=self._masking.unmasked_weight, prior=self._masking.prior_weight)

    def _own_prediction(self, batch: Batch, task: _Task, mask: Shares | None) -> Tensor | None:
        """What the untouched model predicts, (B, C, h, w), float32, and 0 for pictures that do not
        ask for it; None if none does.
        """
        asked = self._asked(batch, mask)
        if not any(asked):
            return None
        rows = [row for row, is_asked in enumerate(asked) if is_asked]
        places = self._moved(torch.tensor(rows))
        device = self._device.type
        # Autocast keeps the casts of weights for the whole context: the training forward would go
        # on with those of the untouched weights (so it does with torch 2.13).
        uncached = torch.autocast(
            device,
            dtype=torch.get_autocast_dtype(device),
            enabled=torch.is_autocast_enabled(device),
            cache_enabled=False,
        )
        shown = self._masked(batch)
        with self._untouched(), torch.no_grad(), uncached:
            predicted = self._family.predict(
                task.noisy[places],
                task.timesteps[places],
                self._conditioning_of(batch, rows),
                frames=batch.frames[rows],
                # By places on the device: a list of numbers would have to be sent there.
                masked=None if shown is None else shown[places],
            ).float()
        return torch.zeros_like(task.wanted).index_copy(0, places, predicted)

    def _asked(self, batch: Batch, mask: Shares | None) -> list[bool]:
        """Which pictures need the untouched model's prediction."""
        asked = self._held(batch)
        if mask is not None and mask.kept is not None:
            outside = mask.kept.flatten(1).any(dim=1).tolist()
            asked = [one or other for one, other in zip(asked, outside, strict=True)]
        return asked

    def _held(self, batch: Batch) -> list[bool]:
        """Which pictures hold the model to what it predicted before training."""
        nothing = (False,) * len(batch.positions)
        own, prior = batch.own_prediction or nothing, batch.is_prior or nothing
        all_priors = isinstance(self._prior, OwnPrediction)
        return [one or (all_priors and other) for one, other in zip(own, prior, strict=True)]

    def _conditioning_of(self, batch: Batch, rows: list[int]) -> Conditioning:
        """What the untouched model is told about some of the pictures."""
        known = batch.conditioning
        if known is None:
            captions = [batch.captions[row] for row in rows]
            return self._family.encode_text(captions, among=batch.step_captions)
        pooled = None if known.pooled is None else known.pooled[rows]
        return Conditioning(known.hidden[rows], pooled)

    def _held_to(self, own: Tensor, batch: Batch, task: _Task) -> _Task:
        """The task with the untouched model's prediction as the target of pictures that ask so."""
        held = self._held(batch)
        if not any(held):
            return task
        is_held = self._moved(torch.tensor(held)).view(-1, 1, 1, 1)
        return replace(task, wanted=torch.where(is_held, own, task.wanted))

    def _per_item(
        self, predicted: Tensor, task: _Task, mask: Shares | None, own: Tensor | None
    ) -> Tensor:
        """Each picture's loss before it is weighed, (B,)."""
        threshold = None if self._thresholds is None else at(self._thresholds, task.timesteps)
        trained = errors(self._mix, predicted, task.wanted, threshold=threshold)
        if mask is None:
            return trained.mean(dim=(1, 2, 3))
        kept = None
        if mask.kept is not None and own is not None:
            kept = errors(self._mix, predicted, own, threshold=threshold)
        counts = Shares(
            self._moved(mask.trained), None if mask.kept is None else self._moved(mask.kept)
        )
        return averaged(trained, kept, counts, normalize_area=self._masking.normalize_area)

    def _counted(self, per_item: Tensor, batch: Batch, timesteps: Tensor) -> Tensor:
        """Each picture's loss as it counts in the step, (B,)."""
        if self._weights is not None:
            per_item = per_item * self._weights[timesteps]
        factors = torch.tensor(batch.loss_weights or [1.0] * len(batch.positions))
        if any(batch.is_prior):
            factors[torch.tensor(batch.is_prior)] *= self._prior.weight
        if all(factor == 1 for factor in factors.tolist()):
            return per_item
        return per_item * self._moved(factors)

    def _masked(self, batch: Batch) -> Tensor | None:
        """What an inpainting model is shown, on the device; None lets all be painted."""
        return None if batch.masked is None else self._moved(batch.masked)

    def _moved(self, tensor: Tensor) -> Tensor:
        """The tensor on the device, without waiting for what that is doing."""
        return sent(tensor, self._device)
