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
from modules.diffusion.timesteps import timestep_table, weighted
from modules.diffusion.weights import weight_table
from modules.interfaces import Batch, Conditioning, Family, Loss, Microbatch, Probe
from modules.memory.precision import uncached_autocast
from modules.memory.to_device import to_device
from modules.objectives.encoder_dropout import EncoderDropout
from modules.objectives.inputs import BaseInputs, DenoisingInputs, Inputs, TextInputs
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

    def draw(self, batch: Microbatch, *, seed: int, step: int) -> DenoisingInputs:
        assert isinstance(batch, Batch)
        draws = Draws(seed, step, batch.positions)
        shape = batch.moments.mean.shape[1:]
        latents = batch.moments.drawn(draws.normal("latent", shape))
        timesteps = self._timesteps(draws)
        growth = None if self._growth is None else self._growth[timesteps]
        noise = draw_noise(self._noise, draws, shape=shape, offset_growth=growth)
        mask = self._mask_weights(batch, draws)
        return DenoisingInputs(
            latents=latents,
            added=noise.added,
            target_noise=None if noise.added is noise.target else noise.target,
            timesteps=timesteps,
            text=self._text(batch, draws),
            time_ids=batch.time_ids,
            weight=batch.weight,
            masked=batch.masked,
            mask=mask,
            base=self._base_inputs(batch, mask),
            factors=self._factors(batch),
        )

    def compute(self, inputs: Inputs) -> Loss:
        assert isinstance(inputs, DenoisingInputs)
        task = self._task(inputs)
        # Before the training forward: replacing the method's weights meanwhile must not change
        # what that saves for its backward.
        base = self._base_prediction(inputs, task)
        if base is not None and inputs.base is not None and inputs.base.is_target is not None:
            task = replace(task, target=torch.where(inputs.base.is_target, base, task.target))
        predicted = self._family.predict(
            task.noisy,
            self._process.network_times(task.timesteps),
            self._conditioning(inputs.text),
            time_ids=inputs.time_ids,
            masked=inputs.masked,
        ).float()
        per_item = self._per_item(predicted, task, inputs.mask, base)
        weighed = per_item if self._weights is None else per_item * self._weights[task.timesteps]
        if inputs.factors is not None:
            weighed = weighed * inputs.factors
        return Loss(weighed.sum() * inputs.weight, per_item.detach())

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
        masked = None if batch.masked is None else self._to_device(batch.masked)
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

    def _task(self, inputs: DenoisingInputs) -> _Task:
        latents, timesteps = inputs.latents, inputs.timesteps
        noise = inputs.added if inputs.target_noise is None else inputs.target_noise
        return _Task(
            noisy=self._process.levels.add_noise(latents, inputs.added, timesteps),
            timesteps=timesteps,
            target=self._process.target(latents, noise, timesteps),
        )

    def timesteps(self, positions: Sequence[int], *, seed: int, step: int) -> list[int]:
        """Return the timesteps of a step's images."""
        return list(map(int, self._timesteps(Draws(seed, step, tuple(positions)))))

    def _timesteps(self, draws: Draws) -> Tensor:
        """Sample timesteps, (B,), int64, on the CPU."""
        table, steps = self._timestep_table, self._process.levels.steps
        if table is None:
            return draws.integers("timestep", steps)
        return weighted(draws.fractions("timestep"), cdf=table)

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

    def _base_inputs(self, batch: Batch, weights: MaskWeights | None) -> BaseInputs | None:
        """Return for which images the base model predicts; None if for none."""
        has_base_target = self._has_base_target(batch)
        needs_base = has_base_target
        if weights is not None and weights.preserved is not None:
            outside = weights.preserved.flatten(1).any(dim=1).tolist()
            needs_base = [any(each) for each in zip(needs_base, outside, strict=True)]
        rows = tuple(row for row, is_needed in enumerate(needs_base) if is_needed)
        if not rows:
            return None
        is_target = torch.tensor(has_base_target).view(-1, 1, 1, 1)
        return BaseInputs(rows, torch.tensor(rows), is_target if any(has_base_target) else None)

    def _base_prediction(self, inputs: DenoisingInputs, task: _Task) -> Tensor | None:
        """Compute the base model's prediction, (B, C, h, w), float32, for images that need it.

        It is 0 for the others. None if no image needs it.
        """
        if inputs.base is None:
            return None
        indices = inputs.base.indices
        with self._base_model(), torch.no_grad(), uncached_autocast(self._device):
            predicted = self._family.predict(
                task.noisy[indices],
                self._process.network_times(task.timesteps[indices]),
                self._conditioning(inputs.text.rows(inputs.base.rows, indices)),
                time_ids=inputs.time_ids[indices],
                masked=None if inputs.masked is None else inputs.masked[indices],
            ).float()
        return torch.zeros_like(task.target).index_copy(0, indices, predicted)

    def _has_base_target(self, batch: Batch) -> list[bool]:
        """Return which images have the base model's prediction as their target."""
        nothing = (False,) * len(batch.positions)
        if not batch.own_prediction and not batch.is_prior:
            return [*nothing]
        own, prior = batch.own_prediction or nothing, batch.is_prior or nothing
        all_priors = isinstance(self._prior, OwnPrediction)
        return [
            is_own or (all_priors and is_prior) for is_own, is_prior in zip(own, prior, strict=True)
        ]

    def _text(self, batch: Batch, draws: Draws) -> TextInputs:
        dropout, encoded = self._encoder_dropout, batch.conditioning
        return TextInputs(
            encoded=encoded,
            empty=None if dropout is None else batch.empty,
            captions=batch.captions if encoded is None else (),
            step_captions=batch.step_captions if encoded is None else (),
            dropped=None if dropout is None else dropout.drawn(draws),
        )

    def _conditioning(self, text: TextInputs) -> Conditioning:
        """Return captions' conditioning, with the dropout of single encoders."""
        dropout, own, empty = self._encoder_dropout, text.encoded, text.empty
        if own is None and dropout is None:
            return self._family.encode_text(text.captions, among=text.step_captions)
        if own is None:
            both = self._family.encode_text((*text.captions, ""), among=text.step_captions)
            own, empty = both.rows(slice(0, -1)), both.rows(slice(-1, None))
        if dropout is None or empty is None or text.dropped is None:
            return own
        return dropout.applied(own, empty, text.dropped)

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
        normalize_area = self._masking.normalize_area
        return masked_mean(trained, preserved, weights, normalize_area=normalize_area)

    def _factors(self, batch: Batch) -> Tensor | None:
        """Return each image's own and class image weight, (B,); None if all are 1."""
        if not batch.loss_weights and not any(batch.is_prior):
            return None
        factors = torch.tensor(batch.loss_weights or [1.0] * len(batch.positions))
        if any(batch.is_prior):
            factors[torch.tensor(batch.is_prior)] *= self._prior.weight
        return None if all(factor == 1 for factor in factors.tolist()) else factors

    def _to_device(self, tensor: Tensor) -> Tensor:
        """Copy a tensor to the device without waiting for its queued work."""
        return to_device(tensor, self._device)
