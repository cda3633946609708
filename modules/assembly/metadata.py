"""Metadata of output files: never a path, a person's name, or the time of day.

Everything follows from config, data and seed, so that the same run writes the same bytes.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic.fields import FieldInfo

from modules.data.batches import Batches
from modules.formats.embeddings.modelspec import (
    TOKEN_RATES,
    FileKind,
    Layout,
    ModelSpec,
    comma_separated,
)
from modules.formats.lora.lora_metadata import layout_of
from modules.interfaces import Family
from onetrainer import __version__
from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.base.amount import Amount
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.data.data import Data
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.components import trained_components
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.objective import Objective
from onetrainer.config.objectives.weighting import (
    Debiased,
    DebiasedOther,
    MinSnr,
    NoiseLike,
    VelocityLike,
)
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.optimizers.optimizer import Optimizer
from onetrainer.config.run.model import FamilyName
from onetrainer.config.run.schedule import Constant, CosineRestarts, Schedule
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.transforms import bucket_at
from onetrainer.families.registry import base_of
from onetrainer.families.spec import Prediction
from onetrainer.model_files.hub import is_hub_name
from onetrainer.schedules.learning_rate import warmup_steps

MAX_TAGS = 10_000
"""Number of most frequent tags to include. A caption in prose counts as a tag of its own, and a
header with those of 100,000 images would be larger than the weights.
"""

CONCEPT = "pictures"
"""Other trainers write the folder's name here, which is private."""

# Features of kohya's trainer that this one lacks, as kohya's trainer writes them when off.
_UNSUPPORTED: Mapping[str, object] = {
    "full_fp16": False,
    "max_token_length": None,
    "adaptive_noise_scale": None,
    "caption_dropout_every_n_epochs": 0,
    "face_crop_aug_range": None,
}


@dataclass(frozen=True)
class ModelFacts:
    """Facts about the base model that users of the file need."""

    family: FamilyName
    prediction: Prediction
    zero_terminal_snr: bool

    @staticmethod
    def of(family: Family) -> "ModelFacts":
        """Return the facts about a loaded model."""
        process = family.process
        return ModelFacts(family.name, process.prediction, process.zero_terminal_snr)


@dataclass(frozen=True)
class DatasetFacts:
    """Facts about the dataset that may be published: counts and a digest.

    Attributes:
        tags: Number of captions with each tag, the most frequent first.
        digest: Of the training data.
        class_images: Number of images for prior preservation.
        validation: Number of validation images.
    """

    buckets: Mapping[Bucket, int]
    tags: Mapping[str, int]
    steps_per_epoch: int
    digest: str
    class_images: int = 0
    validation: int = 0

    @staticmethod
    def of(batches: Batches, digest: str, *, validation: int = 0) -> "DatasetFacts":
        """Return the facts about an encoded dataset."""
        batch_source, trained = batches.batch_source, batches.trained
        buckets = Counter(
            bucket_at(item, batch_source.concepts[item.concept], 0) for item in trained
        )
        return DatasetFacts(
            buckets=dict(sorted(buckets.items())),
            tags=count_tags([item.caption for item in trained]),
            steps_per_epoch=batches.plan.steps_per_epoch,
            digest=digest,
            class_images=len(batch_source.images.items) - len(trained),
            validation=validation,
        )

    @property
    def images(self) -> int:
        """Number of training images."""
        return sum(self.buckets.values())


def count_tags(captions: list[str]) -> dict[str, int]:
    """Count the comma-separated parts of captions; the most frequent first, then alphabetically."""
    counts = Counter(
        tag for caption in captions for part in caption.split(",") if (tag := part.strip())
    )
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return dict(ranked[:MAX_TAGS])


def today() -> str:
    """Return the date in ISO 8601, in UTC, so that no time zone is revealed."""
    return datetime.now(UTC).date().isoformat()


def output_metadata(
    config: TrainConfig,
    model: ModelFacts,
    dataset: DatasetFacts,
    step: int,
    thumbnail: bytes | None = None,
    *,
    day: Callable[[], str] = today,
) -> dict[str, str]:
    """Return the metadata of a file written after a step: ModelSpec's fields, kohya's, and our own.

    The method adds what it alone knows, such as the rank; the writer adds the hashes.

    thumbnail: A small JPEG.
    day: Called only if the config wants the date.
    """
    section = config.metadata
    kohya: dict[str, object] = {}
    ours = {"onetrainer_version": __version__}
    if section.include_dataset:
        kohya |= _dataset_fields(dataset)
        ours["onetrainer_dataset"] = dataset.digest
    if section.include_config:
        kohya |= {**_UNSUPPORTED, **_training_fields(config, model)}
        kohya |= {**_data_fields(config.data), **_objective_fields(config.objective)}
        kohya |= _progress_fields(config, dataset, step)
        ours["onetrainer_config"] = _json(without_paths(config))
        ours |= {TOKEN_RATES: rates} if (rates := _token_rates(config)) else {}
    spec = _spec(
        config,
        model,
        thumbnail=thumbnail if section.include_thumbnail else None,
        date=day() if section.include_date else "",
    )
    return {f"ss_{key}": str(value) for key, value in kohya.items()} | spec.fields() | ours


def without_paths(section: Section) -> dict[str, object]:
    """Return a section as JSON values with every path emptied, except names on the Hub."""
    fields = type(section).model_fields
    return {name: _without_paths(value, fields[name]) for name, value in section}


def _spec(
    config: TrainConfig, model: ModelFacts, *, thumbnail: bytes | None, date: str
) -> ModelSpec:
    settings, side = config.metadata, config.data.resolution
    kind = _file_kind(config)
    return ModelSpec(
        family=model.family,
        prediction=model.prediction,
        kind=kind,
        title=settings.title.strip() or config.output.name,
        resolution=(side, side),
        layout=_layout(config, model),
        encoder_layer=config.model.clip_skip,
        author=settings.author,
        description=settings.description,
        license=settings.license,
        tags=settings.tags,
        trigger_words=_trigger_words(config),
        usage_hint=settings.usage_hint,
        thumbnail=thumbnail,
        date=date,
    )


def _file_kind(config: TrainConfig) -> FileKind:
    match config.method:
        case Full():
            return "model"
        case Vae():
            return "vae"
        case EmbeddingOnly():
            return "textual-inversion"
        case AdapterSection():
            return "lora"


def _layout(config: TrainConfig, model: ModelFacts) -> Layout:
    """Return whose tensor names the written file uses.

    For folders it describes the single file that they can be converted back to.
    """
    match config.method:
        case Full() | Vae() | EmbeddingOnly():
            return "original"
        case AdapterSection():
            return layout_of(base_of(model.family), config.output.lora_naming)


def _training_fields(config: TrainConfig, model: ModelFacts) -> dict[str, object]:
    """Return the fields about training except its length. Source: kohya-ss/sd-scripts."""
    side, precision, training = config.data.resolution, config.hardware.precision, config.training
    rates, factor = _rates(config), training.lr_factor
    warmup = warmup_steps(config.schedule, steps=training.total_steps)
    fields: dict[str, object] = {
        "output_name": config.output.name,
        "seed": training.seed,
        "resolution": f"({side}, {side})",
        "enable_bucket": True,
        "cache_latents": config.data.cache_latents,
        "clip_skip": config.model.clip_skip or None,
        "zero_terminal_snr": model.zero_terminal_snr,
        "learning_rate": config.optimizer.lr * factor,
        "unet_lr": rates.get("unet"),
        "text_encoder_lr": next((lr for name, lr in rates.items() if name != "unet"), None),
        "optimizer": _optimizer_name(config.optimizer),
        "lr_scheduler": _schedule_name(config.schedule, warmup_steps=warmup),
        "lr_warmup_steps": warmup,
        "batch_size_per_device": training.batch_size,
        "gradient_accumulation_steps": training.accumulation,
        "total_batch_size": training.batch_size * training.accumulation,
        "max_grad_norm": training.gradient_clipping,
        "scale_weight_norms": dict(config.method).get("max_norm") or None,
        "gradient_checkpointing": config.hardware.gradient_checkpointing != "off",
        "mixed_precision": "no" if precision == "fp32" else precision,
    }
    if is_hub_name(config.model.path):
        fields["sd_model_name"] = config.model.path
    trigger_words = comma_separated(_trigger_words(config))
    return fields | ({"trigger_words": trigger_words} if trigger_words else {})


def _trigger_words(config: TrainConfig) -> str:
    """Return the trigger words that are written, or else those in front of the captions."""
    trained = (each.trigger.strip() for each in concepts_of(config) if each.role == "train")
    return config.metadata.trigger_words or ", ".join(dict.fromkeys(filter(None, trained)))


def _objective_fields(objective: Objective) -> dict[str, object]:
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
        "debiased_estimation": isinstance(weighting, Debiased | DebiasedOther),
        "scale_v_pred_loss_like_noise_pred": isinstance(weighting, NoiseLike),
        "v_pred_like_loss": weighting.strength if isinstance(weighting, VelocityLike) else None,
        "prior_loss_weight": objective.prior.weight,
    }


def _data_fields(data: Data) -> dict[str, object]:
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


def _optimizer_name(section: Optimizer) -> str:
    """Return the dotted name of the optimizer's class, without the path of a file."""
    if not isinstance(section, CustomOptimizer):
        return section.target.replace(":", ".")
    dotted = section.function.strip().replace(":", ".")
    is_dotted = all(part.isidentifier() for part in dotted.split("."))
    # Of "file.py:Class" the class.
    _, is_file, name = dotted.rpartition(".py.")
    return dotted if is_dotted else f"custom.{name}" if is_file else "custom"


def _schedule_name(schedule: Schedule, *, warmup_steps: int) -> str:
    """Return kohya's name of the schedule; ours where it has none."""
    if isinstance(schedule, Constant) and warmup_steps:
        return "constant_with_warmup"
    return "cosine_with_restarts" if isinstance(schedule, CosineRestarts) else schedule.kind


def _rates(config: TrainConfig) -> dict[str, float]:
    """Return the learning rate of each trained component, scaled with the batch."""
    match config.method:
        case EmbeddingOnly() | Vae():
            return {}
        case method:
            trained = trained_components(method, config.model.family)
            factor = config.training.lr_factor
            rates = {name: each.lr or config.optimizer.lr for name, each in trained.items()}
            return {name: rate * factor for name, rate in rates.items()}


def _token_rates(config: TrainConfig) -> str:
    """Return the learning rate of each trained token, in order, scaled with the batch."""
    section = config.embeddings
    usual = section.lr or config.optimizer.lr
    factor = config.training.lr_factor
    return " ".join(str((each.lr or usual) * factor) for each in section.tokens if each.train)


def _progress_fields(config: TrainConfig, dataset: DatasetFacts, step: int) -> dict[str, object]:
    """Return the length of training in steps and epochs begun."""
    batch, steps = config.training.batch_size, config.training.total_steps
    return {
        "steps": step,
        "max_train_steps": steps,
        "epoch": math.ceil(step / dataset.steps_per_epoch),
        "num_epochs": math.ceil(steps / dataset.steps_per_epoch),
        "num_batches_per_epoch": sum(-(-count // batch) for count in dataset.buckets.values()),
        "num_train_images": dataset.images,
        "num_reg_images": dataset.class_images,
        "num_validation_images": dataset.validation,
    }


def _dataset_fields(dataset: DatasetFacts) -> dict[str, str]:
    buckets = {
        str(number): {"resolution": [bucket.width, bucket.height], "count": count}
        for number, (bucket, count) in enumerate(dataset.buckets.items())
    }
    return {
        "tag_frequency": _json({CONCEPT: dict(dataset.tags)}),
        "bucket_info": _json({"buckets": buckets}),
    }


def _without_paths(value: object, field: FieldInfo) -> object:
    ui = next((mark for mark in field.metadata if isinstance(mark, Ui)), None)
    if ui is not None and ui.is_path:
        may_stay = ui.editor == "model" and isinstance(value, str) and is_hub_name(value)
        return value if may_stay or value is None else "" if isinstance(value, str) else []
    if isinstance(value, Section):
        return without_paths(value)
    if isinstance(value, Mapping):
        return {key: without_paths(section) for key, section in value.items()}
    if isinstance(value, tuple):
        return [without_paths(item) if isinstance(item, Section) else item for item in value]
    return str(value) if isinstance(value, Amount) else value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
