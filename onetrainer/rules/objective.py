"""What is wrong between the objective and the other settings."""

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

MUCH_OFFSET = 0.2  # several times what people use; colors drift beyond


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of losses, noise, timesteps, masks and prior preservation."""
    section = config.objective
    if not isinstance(section, Denoising):
        return []
    return [
        *_of_losses(section.loss),
        *_of_timesteps(section.timesteps),
        *_of_weighting(section.weighting, config.model),
        *_of_noise(section.noise, config.model),
        *_of_prior(section),
        *_of_comparison(section, config),
    ]


def _of_losses(loss: Losses) -> list[Problem]:
    if loss.mse or loss.mae or loss.huber or loss.log_cosh:
        return []
    return [
        Problem(
            "objective.loss.mse",
            "MSE, MAE, Huber and log-cosh are all 0, so that no mistake counts",
            "Expected at least one of them above 0",
            "Set MSE to 1.",
            fix=Fix("objective.loss.mse", 1.0),
        )
    ]


def _of_timesteps(timesteps: Timesteps) -> list[Problem]:
    if timesteps.lowest < timesteps.highest:
        return []
    return [
        Problem(
            "objective.timesteps.lowest",
            f"no timesteps are left between the least noise {timesteps.lowest:g} and the most"
            f" {timesteps.highest:g}",
            "Expected the least below the most",
            "Lower the one or raise the other.",
        )
    ]


def _of_weighting(weighting: Weighting, model: Model) -> list[Problem]:
    match weighting, model.prediction:
        case VelocityLike(), "v_prediction":
            what = "the model predicts velocity, so that its loss is that of v-prediction already"
            other = "epsilon"
        case NoiseLike(), "epsilon":
            what = "the model predicts noise, so that its loss is that of noise prediction already"
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


def _of_noise(noise: Noise, model: Model) -> list[Problem]:
    found = []
    if model.zero_terminal_snr == "on" and noise.offset:
        found.append(
            Problem(
                "objective.noise.offset",
                "offset noise and zero terminal SNR both teach very dark and very bright pictures",
                "Together they make colors drift",
                "Set the offset to 0.",
                "warning",
                Fix("objective.noise.offset", 0.0),
            )
        )
    elif noise.offset > MUCH_OFFSET:
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
                "there is no offset noise that could grow with the timestep",
                "Expected an offset above 0 with it",
                "Set the offset, 0.05 for instance, or switch this off.",
                "warning",
            )
        )
    return found


def _of_prior(section: Denoising) -> list[Problem]:
    if section.prior.weight:
        return []
    return [
        Problem(
            "objective.prior.weight",
            "prior pictures count nothing, and still take their time",
            "Expected a weight above 0 where there are any",
            "Raise it, or leave such pictures out.",
            "warning",
            Fix("objective.prior.weight", 1.0),
        )
    ]


def _of_comparison(section: Denoising, config: TrainConfig) -> list[Problem]:
    """What is to be held to the untrained model's prediction, and is not there."""
    found = []
    concepts = concepts_of(config)
    is_kept = any(concept.is_prior for concept in concepts)
    if isinstance(section.prior, OwnPrediction) and not is_kept:
        found.append(
            Problem(
                "objective.prior.kind",
                "there are no prior pictures that could be held to the untrained model's"
                " prediction",
                "Expected a folder of class pictures with it (data.class_folder)",
                "Choose one, or let prior pictures teach what they show.",
                "warning",
                Fix("objective.prior.kind", "class_images"),
            )
        )
    is_masked = config.data.masks != "off" or any(concept.masks != "off" for concept in concepts)
    if section.mask.prior_weight and not is_masked:
        found.append(
            Problem(
                "objective.mask.prior_weight",
                "masks are off, so that nothing lies outside them and is kept as it was",
                "Expected masks with it (data.masks)",
                "Choose where masks are, or set the weight to 0.",
                "warning",
                Fix("objective.mask.prior_weight", 0.0),
            )
        )
    return found
