"""Our settings in the terms of kohya's programs, which others read them by."""

from onetrainer.config.data.data import Data
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.loss import Losses
from onetrainer.config.objectives.objective import Objective
from onetrainer.config.objectives.weighting import Debiased, MinSnr, NoiseLike, VelocityLike
from onetrainer.config.run.schedule import Constant, CosineRestarts, Schedule


def objective_terms(objective: Objective) -> dict[str, object]:
    """The fields that tell how mistakes were counted. Source of the names: kohya-ss/sd-scripts."""
    if not isinstance(objective, Denoising):
        return {"loss_type": objective.kind}
    noise, weighting = objective.noise, objective.weighting
    return {
        "loss_type": _loss_type(objective.loss),
        "huber_schedule": objective.loss.huber_schedule if objective.loss.huber else None,
        "huber_c": objective.loss.huber_threshold if objective.loss.huber else None,
        "noise_offset": noise.offset or None,
        "multires_noise_iterations": noise.pyramid_levels or None,
        "multires_noise_discount": noise.pyramid_discount if noise.pyramid_levels else None,
        "ip_noise_gamma": noise.input_perturbation or None,
        "min_snr_gamma": weighting.gamma if isinstance(weighting, MinSnr) else None,
        "debiased_estimation": isinstance(weighting, Debiased),
        "scale_v_pred_loss_like_noise_pred": isinstance(weighting, NoiseLike),
        "v_pred_like_loss": weighting.strength if isinstance(weighting, VelocityLike) else None,
        "prior_loss_weight": objective.prior.weight,
    }


def data_terms(data: Data) -> dict[str, object]:
    """The fields that tell how pictures and captions changed, of all folders without their own."""
    captions, changes = data.captions, data.augmentation
    colors = (changes.brightness, changes.contrast, changes.saturation, changes.hue)
    return {
        "caption_dropout_rate": captions.dropout,
        "caption_tag_dropout_rate": captions.drop_chance if captions.drop_tags != "off" else 0.0,
        "shuffle_caption": captions.shuffle,
        "keep_tokens": captions.keep,
        "color_aug": any(colors),
        "flip_aug": changes.flip == "random",
        "random_crop": data.buckets.crop == "random" or changes.crop_jitter > 0,
        "bucket_no_upscale": data.buckets.upscale_limit == 1,
    }


def schedule_term(schedule: Schedule, *, warmup_steps: int) -> str:
    """The schedule's name there; those that have none keep ours."""
    match schedule:
        case Constant() if warmup_steps:
            return "constant_with_warmup"
        case CosineRestarts():
            return "cosine_with_restarts"
        case _:
            return schedule.kind


def _loss_type(loss: Losses) -> str:
    """The one that counts, or all that are added up: "l2", "l1", "huber", "l2+huber"."""
    terms = {"l2": loss.mse, "l1": loss.mae, "huber": loss.huber, "log_cosh": loss.log_cosh}
    return "+".join(term for term, share in terms.items() if share)
