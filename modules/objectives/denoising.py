"""The denoising objective: predict the noise that was added to an image."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from modules.diffusion.draws import Draws
from modules.diffusion.losses import errors, huber_thresholds
from modules.diffusion.masks import MaskWeights, mask_weights, masked_mean
from modules.diffusion.noise import draw_noise, offset_growth
from modules.diffusion.schedule import at
from modules.diffusion.timesteps import timestep_table, uniform, weighted
from modules.diffusion.weights import weight_table
from modules.interfaces import Batch, Conditioning, Family, LatentMoments, Loss, Microbatch, Probe
from modules.memory.precision import uncached_autocast
from modules.memory.to_device import to_device
from modules.objectives.encoder_dropout import EncoderDropout
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.objectives.prior import OwnPrediction


@dataclass(frozen=True)
class _Task:
    """The UNet's input and target; all on the device.

    noisy, target: (B, C, h, w), float32. timesteps: (B,), int64.
    """

    noisy: Tensor
    timesteps: Tensor
    target: Tensor


class Denoising:
    """The error of the UNet's prediction (Ho et al. 2020, arXiv:2006.11239, equation 14).

    Every image draws its random numbers from (seed, purpose, step, position), so a step is
    independent of microbatch size. The effects are applied in this order:

    1. latent and timestep; the noise with its additions (`draw_noise`), and the target;
    2. where needed, the base model's prediction: in place of a prior image's target, and in
       addition to the target outside a mask;
    3. the error of each element (`errors`), with Huber thresholds by timestep;
    4. the mask, and the mean per image: this is `Loss.per_item`, because it can be compared
       between runs that weigh timesteps and images differently;
    5. the timestep's weight, the weight of prior images, the image's fraction of the step.

    base_model: a context in which the family computes as before training (`Method.base_model`).
    encoder_dropout: the probability of an empty caption, by text encoder.
    """

    def __init__(
        self,
        family: Family,
        *,
        section: DenoisingSection,
        device: torch.device,
        base_model: Callable[[], AbstractContextManager[None]] = nullcontext,
        encoder_dropout: Mapping[str, float] | None = None,
    ) -> None:
        self._family = family
        self._masking = section.mask
        self._prior = section.prior
        self._device = device
        self._base_model = base_model
        self._encoder_dropout = EncoderDropout.of(family, encoder_dropout or {})
        self._process = family.process.to(device)
        self._mix = section.loss
        self._noise = section.noise
        levels, grows = self._process.levels, section.noise.offset_by_timestep
        self._growth = offset_growth(family.process.levels).cpu() if grows else None
        self._timestep_table = timestep_table(section.timesteps, steps=levels.steps)
        self._thresholds = huber_thresholds(section.loss, levels)
        self._weights = weight_table(section.weighting, levels, self._process.prediction)

    def loss(self, batch: Microbatch, *, seed: int, step: int) -> Loss:
        """Compute the loss of a microbatch; call it under the engine's autocast."""
        assert isinstance(batch, Batch)
        draws = Draws(seed, step, batch.positions)
        task = self._task(batch.moments, draws)
        weights = self._mask_weights(batch, draws)
        # Before the training forward: replacing the method's weights meanwhile must not change
        # what that saves for its backward.
        base = self._base_prediction(batch, task, weights, draws)
        if base is not None:
            task = self._with_base_targets(base, batch, task)
        predicted = self._family.predict(
            task.noisy,
            self._process.network_times(task.timesteps),
            self._conditioning_of(batch, draws),
            time_ids=batch.time_ids,
            masked=self._masked_input(batch),
        ).float()
        per_item = self._per_item(predicted, task, weights, base)
        weighed = self._apply_weights(per_item, batch, task.timesteps)
        return Loss(weighed.sum() * batch.weight, per_item.detach())

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """Compute the masked mean squared error, (K,), for any training loss.

        With plain noise, without timestep weights or random draws, at the mean of the latent's
        posterior: so that the numbers of runs with other settings can be compared.
        """
        count = len(probe.levels)
        levels, steps = self._process.levels, self._process.levels.steps
        timesteps = self._to_device(torch.tensor([int(level * steps) for level in probe.levels]))
        latents = self._to_device(batch.moments.mean).expand(count, -1, -1, -1)
        noise = self._to_device(probe.noise)
        conditioning = batch.conditioning or self._family.encode_text(batch.captions)
        masked = self._masked_input(batch)
        predicted = self._family.predict(
            levels.add_noise(latents, noise, timesteps),
            self._process.network_times(timesteps),
            conditioning.repeated(count),
            time_ids=batch.time_ids.expand(count, -1),
            masked=None if masked is None else masked.expand(count, -1, -1, -1),
        ).float()
        squares = (predicted - self._process.target(latents, noise, timesteps)).square()
        if batch.mask is None:
            return squares.mean(dim=(1, 2, 3))
        mask, outside = self._to_device(batch.mask), self._masking.unmasked_weight
        weights = mask_weights(mask, outside=outside, prior=0)
        return masked_mean(squares, None, weights, normalize_area=True)

    def _task(self, moments: LatentMoments, draws: Draws) -> _Task:
        shape = moments.mean.shape[1:]
        latents = moments.drawn(draws.normal("latent", shape))
        timesteps = self._timesteps(draws)
        growth = None if self._growth is None else self._growth[timesteps]
        noise = draw_noise(self._noise, draws, shape=shape, offset_growth=growth)
        latents, timesteps, target_noise = map(self._to_device, (latents, timesteps, noise.target))
        added = target_noise if noise.added is noise.target else self._to_device(noise.added)
        return _Task(
            noisy=self._process.levels.add_noise(latents, added, timesteps),
            timesteps=timesteps,
            target=self._process.target(latents, target_noise, timesteps),
        )

    def timesteps(self, positions: Sequence[int], *, seed: int, step: int) -> list[int]:
        """Return the timesteps of a step's images."""
        return list(map(int, self._timesteps(Draws(seed, step, tuple(positions)))))

    def _timesteps(self, draws: Draws) -> Tensor:
        """Sample timesteps, (B,), int64, on the CPU."""
        table, steps = self._timestep_table, self._process.levels.steps
        generators = draws.generators("timestep")
        if table is None:
            return torch.cat([uniform(1, steps=steps, generator=each) for each in generators])
        return torch.cat([weighted(1, cdf=table, generator=each) for each in generators])

    def _mask_weights(self, batch: Batch, draws: Draws) -> MaskWeights | None:
        """Return the weights of the images' positions, on the CPU; None without masks."""
        if batch.mask is None:
            return None
        mask = batch.mask
        if self._masking.unmasked_probability:
            chances = draws.chances("unmasked")
            is_unmasked = [chance < self._masking.unmasked_probability for chance in chances]
            mask = torch.where(torch.tensor(is_unmasked).view(-1, 1, 1, 1), torch.ones(()), mask)
        masking = self._masking
        return mask_weights(mask, outside=masking.unmasked_weight, prior=masking.prior_weight)

    def _base_prediction(
        self, batch: Batch, task: _Task, weights: MaskWeights | None, draws: Draws
    ) -> Tensor | None:
        """Compute the base model's prediction, (B, C, h, w), float32, for images that need it.

        It is 0 for the others. None if no image needs it.
        """
        needs_base = self._has_base_target(batch)
        if weights is not None and weights.preserved is not None:
            outside = weights.preserved.flatten(1).any(dim=1).tolist()
            needs_base = [any(each) for each in zip(needs_base, outside, strict=True)]
        if not any(needs_base):
            return None
        rows = [row for row, is_needed in enumerate(needs_base) if is_needed]
        indices = self._to_device(torch.tensor(rows))
        masked = self._masked_input(batch)
        with self._base_model(), torch.no_grad(), uncached_autocast(self._device):
            predicted = self._family.predict(
                task.noisy[indices],
                self._process.network_times(task.timesteps[indices]),
                self._conditioning_of(batch, draws, rows),
                time_ids=batch.time_ids[rows],
                # Indexed by a tensor on the device: a list would be copied there.
                masked=None if masked is None else masked[indices],
            ).float()
        return torch.zeros_like(task.target).index_copy(0, indices, predicted)

    def _has_base_target(self, batch: Batch) -> list[bool]:
        """Return which images have the base model's prediction as their target."""
        nothing = (False,) * len(batch.positions)
        own, prior = batch.own_prediction or nothing, batch.is_prior or nothing
        all_priors = isinstance(self._prior, OwnPrediction)
        return [
            is_own or (all_priors and is_prior) for is_own, is_prior in zip(own, prior, strict=True)
        ]

    def _conditioning_of(
        self, batch: Batch, draws: Draws, rows: list[int] | None = None
    ) -> Conditioning:
        """Return the conditioning of some of the images; of all without `rows`."""
        captions, own, empty = batch.captions, batch.conditioning, batch.empty
        if rows is not None:
            captions = tuple(captions[row] for row in rows)
            draws = replace(draws, positions=tuple(draws.positions[row] for row in rows))
            own = None if own is None else own.rows(rows)
        if own is None and self._encoder_dropout is None:
            return self._family.encode_text(captions, among=batch.step_captions)
        if own is None:
            both = self._family.encode_text((*captions, ""), among=batch.step_captions)
            own, empty = both.rows(slice(0, -1)), both.rows(slice(-1, None))
        if self._encoder_dropout is None or empty is None:
            return own
        return self._encoder_dropout.applied(own, empty, draws)

    def _with_base_targets(self, base: Tensor, batch: Batch, task: _Task) -> _Task:
        """Replace the targets of images that have the base model's prediction as theirs."""
        has_base_target = self._has_base_target(batch)
        if not any(has_base_target):
            return task
        replaces = self._to_device(torch.tensor(has_base_target)).view(-1, 1, 1, 1)
        return replace(task, target=torch.where(replaces, base, task.target))

    def _per_item(
        self, predicted: Tensor, task: _Task, weights: MaskWeights | None, base: Tensor | None
    ) -> Tensor:
        """Compute the unweighted loss of each image, (B,)."""
        threshold = None if self._thresholds is None else at(self._thresholds, task.timesteps)
        trained = errors(self._mix, predicted, task.target, threshold=threshold)
        if weights is None:
            return trained.mean(dim=(1, 2, 3))
        preserved = None
        if weights.preserved is not None and base is not None:
            preserved = errors(self._mix, predicted, base, threshold=threshold)
        on_device = MaskWeights(
            self._to_device(weights.trained),
            None if weights.preserved is None else self._to_device(weights.preserved),
        )
        normalize_area = self._masking.normalize_area
        return masked_mean(trained, preserved, on_device, normalize_area=normalize_area)

    def _apply_weights(self, per_item: Tensor, batch: Batch, timesteps: Tensor) -> Tensor:
        """Multiply each image's loss, (B,), by its timestep, image and class image weights."""
        if self._weights is not None:
            per_item = per_item * self._weights[timesteps]
        factors = torch.tensor(batch.loss_weights or [1.0] * len(batch.positions))
        if any(batch.is_prior):
            factors[torch.tensor(batch.is_prior)] *= self._prior.weight
        if all(factor == 1 for factor in factors.tolist()):
            return per_item
        return per_item * self._to_device(factors)

    def _masked_input(self, batch: Batch) -> Tensor | None:
        """Return the mask and the masked image, on the device; None means all is masked."""
        return None if batch.masked is None else self._to_device(batch.masked)

    def _to_device(self, tensor: Tensor) -> Tensor:
        """Copy a tensor to the device without waiting for its queued work."""
        return to_device(tensor, self._device)
