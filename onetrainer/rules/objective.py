"""Rules of the denoising objective."""

from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.loss import Losses
from onetrainer.config.objectives.noise import Noise
from onetrainer.config.objectives.prior import OwnPrediction
from onetrainer.config.objectives.timesteps import Timesteps
from onetrainer.config.objectives.weighting import NoiseLike, VelocityLike, Weighting
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

HIGH_OFFSET = 0.2  # several times the usual value; colors drift beyond it


def problems(config: TrainConfig) -> list[Problem]:
    """Return problems of losses, noise, timesteps, masks and prior preservation."""
    section = config.objective
    if not isinstance(section, Denoising):
        return []
    return [
        *_loss_problems(section.loss),
        *_timestep_problems(section.timesteps),
        *_weighting_problems(section.weighting, config.model),
        *_noise_problems(section.noise, config.model),
        *_prior_problems(section),
        *_unused_problems(section, config),
    ]


def _loss_problems(loss: Losses) -> list[Problem]:
    if loss.mse or loss.mae or loss.huber or loss.log_cosh:
        return []
    return [
        Problem(
            "objective.loss.mse",
            "MSE, MAE, Huber and log-cosh are all 0, so nothing is trained",
            "Expected at least one of them above 0",
            "Set MSE to 1.",
            fix=Fix("objective.loss.mse", 1.0),
        )
    ]


def _timestep_problems(timesteps: Timesteps) -> list[Problem]:
    if timesteps.lowest < timesteps.highest:
        return []
    return [
        Problem(
            "objective.timesteps.lowest",
            f"no timesteps are left between min noising strength {timesteps.lowest:g} and max"
            f" {timesteps.highest:g}",
            "Expected the minimum below the maximum",
            "Lower the minimum or raise the maximum.",
        )
    ]


def _weighting_problems(weighting: Weighting, model: Model) -> list[Problem]:
    match weighting, model.prediction:
        case VelocityLike(), "v_prediction":
            what = "the model predicts velocity, so its loss is already that of v-prediction"
            other = "epsilon"
        case NoiseLike(), "epsilon":
            what = "the model predicts noise, so its loss is already that of noise prediction"
            other = "v_prediction"
        case _:
            return []
    return [
        Problem(
            "objective.weighting.kind",
            what,
            f'"{weighting.kind}" is for models whose prediction is "{other}"',
            "Choose another weighting.",
            "warning",
            Fix("objective.weighting.kind", "none"),
        )
    ]


def _noise_problems(noise: Noise, model: Model) -> list[Problem]:
    found = []
    if model.zero_terminal_snr == "on" and noise.offset:
        found.append(
            Problem(
                "objective.noise.offset",
                "offset noise and zero terminal SNR both train very dark and very bright images",
                "Expected only one of them; together they make colors drift",
                "Set the offset to 0.",
                "warning",
                Fix("objective.noise.offset", 0.0),
            )
        )
    elif noise.offset > HIGH_OFFSET:
        found.append(
            Problem(
                "objective.noise.offset",
                f"{noise.offset:g} is a strong offset",
                "0.03 to 0.1 is usual; more makes colors drift",
                "Lower it.",
                "warning",
            )
        )
    if noise.offset_by_timestep and not noise.offset:
        found.append(
            Problem(
                "objective.noise.offset_by_timestep",
                "there is no offset noise to scale with the timestep",
                "Expected an offset above 0",
                "Set the offset, for example to 0.05, or turn this off.",
                "warning",
            )
        )
    return found


def _prior_problems(section: Denoising) -> list[Problem]:
    if section.prior.weight:
        return []
    return [
        Problem(
            "objective.prior.weight",
            "class images have no effect on the loss but still take time",
            "Expected a weight above 0 if there are any",
            "Raise it, or remove the class images.",
            "warning",
            Fix("objective.prior.weight", 1.0),
        )
    ]


def _unused_problems(section: Denoising, config: TrainConfig) -> list[Problem]:
    """Return warnings about preservation settings that have nothing to preserve."""
    found = []
    concepts = concepts_of(config)
    has_class_images = any(concept.is_prior for concept in concepts)
    if isinstance(section.prior, OwnPrediction) and not has_class_images:
        found.append(
            Problem(
                "objective.prior.kind",
                "there are no class images for the base model's prediction",
                "Expected a folder of class images (data.class_folder)",
                "Choose one, or set prior preservation to class images.",
                "warning",
                Fix("objective.prior.kind", "class_images"),
            )
        )
    is_masked = config.data.masks != "off" or any(concept.masks != "off" for concept in concepts)
    if section.mask.prior_weight and not is_masked:
        found.append(
            Problem(
                "objective.mask.prior_weight",
                "masks are off, so there is nothing outside them to preserve",
                "Expected masks to be on (data.masks)",
                "Choose a source of masks, or set the weight to 0.",
                "warning",
                Fix("objective.mask.prior_weight", 0.0),
            )
        )
    return found
