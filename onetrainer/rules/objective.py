"""Rules of the denoising objective."""

from collections.abc import Iterator

from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.base.numbers import number_text
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.noise import Noise
from onetrainer.config.objectives.prior import OwnPrediction
from onetrainer.config.objectives.weighting import (
    DebiasedOther,
    NoiseLike,
    Plain,
    VelocityLike,
    Weighting,
)
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.schedules.loss_weights import STEPS
from onetrainer.schedules.timestep_density import density

_RARE = 0.01
"""A hundredth of what uniform timesteps have: once in 100,000 images."""
HIGH_OFFSET = 0.2  # several times the usual value; colors drift beyond it


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of losses, noise, timesteps, masks and prior preservation."""
    section = config.objective
    if not isinstance(section, Denoising):
        return
    loss, timesteps = section.loss, section.timesteps
    if not (loss.mse or loss.mae or loss.huber or loss.log_cosh):
        yield Problem(
            "objective.loss.mse",
            "MSE, MAE, Huber and log-cosh are all 0, so nothing is trained",
            "Expected at least one of them above 0",
            "Set MSE to 1.",
            fix=Fix("objective.loss.mse", 1.0),
        )
    if timesteps.lowest >= timesteps.highest:
        yield Problem(
            "objective.timesteps.lowest",
            f"no timesteps are left between min noising strength {number_text(timesteps.lowest)}"
            f" and max {number_text(timesteps.highest)}",
            "Expected the minimum below the maximum",
            "Lower the minimum or raise the maximum.",
        )
    yield from _weighting_problems(section.weighting, config.model)
    if config.model.prediction == "v_prediction" and config.model.zero_terminal_snr == "on":
        yield from pure_noise_problems(config)
    yield from _noise_problems(section.noise, config.model)
    if not section.prior.weight:
        yield warning(
            "objective.prior.weight",
            "class images have no effect on the loss but still take time",
            "Expected a weight above 0 if there are any",
            "Raise it, or remove the class images.",
            to=1.0,
        )
    yield from _unused_problems(section, config)


def _weighting_problems(weighting: Weighting, model: Model) -> Iterator[Problem]:
    match weighting, model.prediction:
        case VelocityLike(), "v_prediction":
            what = "the model predicts velocity, so its loss is already that of v-prediction"
            other = "epsilon"
        case NoiseLike(), "epsilon":
            what = "the model predicts noise, so its loss is already that of noise prediction"
            other = "v_prediction"
        case _:
            return
    yield warning(
        "objective.weighting.kind",
        what,
        f'"{weighting.kind}" is for models whose prediction is "{other}"',
        "Choose another weighting.",
        to="none",
    )


def pure_noise_problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield why the last timestep is never trained, which zero terminal SNR adds: pure noise.

    config: Of a run whose model predicts velocity under it.
    """
    section = config.objective
    if not isinstance(section, Denoising):
        return
    weighting, timesteps = section.weighting, section.timesteps
    if not weighting.trains_pure_noise:
        yield warning(
            "objective.weighting.kind",
            f"{weighting.title} gives pure noise, the timestep that zero terminal SNR adds, the"
            " weight 0 where the model predicts velocity: it is never trained",
            "Expected a weighting that trains it",
            f'Choose "{Plain.title}", "{DebiasedOther.title}" or "{VelocityLike.title}".',
            to=Plain().kind,
        )
    if timesteps.lowest < timesteps.highest and density(timesteps)[-1] < _RARE / STEPS:
        yield warning(
            "objective.timesteps.highest" if timesteps.highest < 1 else "objective.timesteps.kind",
            "these timesteps hardly ever include pure noise, which zero terminal SNR adds",
            "Expected it about as often as others",
            "Raise the highest noising strength to 1, or choose another distribution.",
        )


def _noise_problems(noise: Noise, model: Model) -> Iterator[Problem]:
    if model.zero_terminal_snr == "on" and noise.offset:
        yield warning(
            "objective.noise.offset",
            "offset noise and zero terminal SNR both train very dark and very bright images",
            "Expected only one of them; together they make colors drift",
            "Set the offset to 0.",
            to=0.0,
        )
    elif noise.offset > HIGH_OFFSET:
        yield warning(
            "objective.noise.offset",
            f"{number_text(noise.offset)} is a strong offset",
            "0.03 to 0.1 is usual; more makes colors drift",
            "Lower it.",
        )
    if noise.offset_by_timestep and not noise.offset:
        yield warning(
            "objective.noise.offset_by_timestep",
            "there is no offset noise to scale with the timestep",
            "Expected an offset above 0",
            "Set the offset, for example to 0.05, or turn this off.",
        )


def _unused_problems(section: Denoising, config: TrainConfig) -> Iterator[Problem]:
    """Yield warnings about preservation settings that have nothing to preserve."""
    concepts = concepts_of(config)
    if isinstance(section.prior, OwnPrediction) and not any(one.is_prior for one in concepts):
        yield warning(
            "objective.prior.kind",
            "there are no class images for the base model's prediction",
            "Expected a folder of class images (data.class_folder)",
            "Choose one, or set prior preservation to class images.",
            to="class_images",
        )
    if section.mask.prior_weight and not has_masks(config):
        yield warning(
            "objective.mask.prior_weight",
            "masks are off, so there is nothing outside them to preserve",
            "Expected masks to be on (data.masks)",
            "Choose a source of masks, or set the weight to 0.",
            to=0.0,
        )
