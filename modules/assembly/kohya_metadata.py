"""Metadata fields of kohya's trainers, which other programs read. Source: kohya-ss/sd-scripts."""

from onetrainer.config.data.data import Data
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.objective import Objective
from onetrainer.config.objectives.weighting import Debiased, MinSnr, NoiseLike, VelocityLike
from onetrainer.config.run.schedule import Constant, CosineRestarts, Schedule


def objective_terms(objective: Objective) -> dict[str, object]:
    """Return the fields that describe the loss."""
    if not isinstance(objective, Denoising):
        return {"loss_type": objective.kind}
    noise, weighting, loss = objective.noise, objective.weighting, objective.loss
    losses = {"l2": loss.mse, "l1": loss.mae, "huber": loss.huber, "log_cosh": loss.log_cosh}
    return {
        # All terms that are added up: "l2", "l1", "huber", "l2+huber".
        "loss_type": "+".join(term for term, weight in losses.items() if weight),
        "huber_schedule": loss.huber_schedule if loss.huber else None,
        "huber_c": loss.huber_threshold if loss.huber else None,
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
    """Return the fields for caption and image changes, of folders without settings of their own."""
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
    """Return kohya's name of the schedule; ours where it has none."""
    if isinstance(schedule, Constant) and warmup_steps:
        return "constant_with_warmup"
    return "cosine_with_restarts" if isinstance(schedule, CosineRestarts) else schedule.kind
