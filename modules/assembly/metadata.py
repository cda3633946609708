"""What a finished file tells about its making. Never a path, a name of a person, or the time.

Everything follows from config, data and seed, so that the same run gives the same bytes.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from pydantic.fields import FieldInfo

from modules.assembly.dataset import Batches
from modules.assembly.kohya_metadata import data_terms, objective_terms, schedule_term
from modules.formats.embeddings.modelspec import FileKind, Layout, ModelSpec, comma_separated
from modules.formats.lora.lora_metadata import layout_of
from modules.interfaces import Family
from onetrainer import __version__
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.run.model import FamilyName, Prediction, base_of
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.transforms import bucket_at
from onetrainer.model_files.hub import is_hub_name
from onetrainer.schedules.learning_rate import warmup_steps

MAX_TAGS = 10_000
"""The most frequent ones are told. Captions in sentences make each its own tag, and a header with
those of 100,000 pictures would be larger than what was trained."""

CONCEPT = "pictures"
"""Other trainers put the folder's name here, which is nobody's business."""

# What kohya's trainer can do and this one does not, in the words in which it would say so.
_NOT_DONE: Mapping[str, object] = MappingProxyType(
    {
        "full_fp16": False,
        "max_token_length": None,
        "adaptive_noise_scale": None,
        "scale_weight_norms": None,
        "caption_dropout_every_n_epochs": 0,
        "face_crop_aug_range": None,
    }
)


@dataclass(frozen=True)
class ModelFacts:
    """What of the base model matters to whoever uses the file."""

    family: FamilyName
    prediction: Prediction
    zero_terminal_snr: bool

    @staticmethod
    def of(family: Family) -> "ModelFacts":
        """Those of a loaded model."""
        settings = family.schedule.settings
        return ModelFacts(family.name, family.prediction, settings.zero_terminal_snr)


@dataclass(frozen=True)
class DatasetFacts:
    """What of the pictures may be told: counts, and a digest.

    tags: how many captions each is in, the most frequent first. digest: of everything encoded.
    class_pictures: how many there are beside them, of what the model is to keep. held_out: how many
    more the model is measured on.
    """

    buckets: Mapping[Bucket, int]
    tags: Mapping[str, int]
    steps_per_epoch: int
    digest: str
    class_images: int = 0
    validation: int = 0

    @staticmethod
    def of(batches: Batches, digest: str, *, validation: int = 0) -> "DatasetFacts":
        """Those of an encoded dataset in the order that it is learned in."""
        shelf, trained = batches.shelf, batches.trained
        buckets = Counter(bucket_at(item, shelf.concepts[item.concept], 0) for item in trained)
        return DatasetFacts(
            buckets=dict(sorted(buckets.items())),
            tags=count_tags([item.caption for item in trained]),
            steps_per_epoch=batches.plan.steps_per_epoch,
            digest=digest,
            class_images=len(shelf.images.items) - len(trained),
            validation=validation,
        )

    @property
    def images(self) -> int:
        """How many there are."""
        return sum(self.buckets.values())


def count_tags(captions: list[str]) -> dict[str, int]:
    """How often each part between commas occurs; the most frequent first, then by the alphabet."""
    counts = Counter(
        tag for caption in captions for part in caption.split(",") if (tag := part.strip())
    )
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return dict(ranked[:MAX_TAGS])


def today() -> str:
    """The day, in ISO 8601; everywhere on Earth the same, so that it tells no place."""
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
    """The fields of a file written after a step: ModelSpec's, kohya's, and our own.

    thumbnail: a small JPEG. day: asked only where the config wants the date.
    The method adds what only it knows, such as the rank; the writer adds the hashes.
    """
    wanted = config.metadata
    kohya: dict[str, object] = {}
    own = {"onetrainer_version": __version__}
    if wanted.include_dataset:
        kohya |= _dataset_fields(dataset)
        own["onetrainer_dataset"] = dataset.digest
    if wanted.include_config:
        kohya |= {**_NOT_DONE, **_training_fields(config, model)}
        kohya |= {**data_terms(config.data), **objective_terms(config.objective)}
        kohya |= _progress_fields(config, dataset, step)
        own["onetrainer_config"] = _json(without_paths(config))
    spec = _spec(
        config,
        model,
        thumbnail=thumbnail if wanted.include_thumbnail else None,
        date=day() if wanted.include_date else "",
    )
    return {f"ss_{key}": str(value) for key, value in kohya.items()} | spec.fields() | own


def without_paths(section: Section) -> dict[str, object]:
    """A section as JSON values, with every path emptied; a model's name on the hub stays."""
    fields = type(section).model_fields
    return {name: _without_paths(value, fields[name]) for name, value in section}


def _spec(
    config: TrainConfig, model: ModelFacts, *, thumbnail: bytes | None, date: str
) -> ModelSpec:
    words, side = config.metadata, config.data.resolution
    kind = _kind_of(config)
    return ModelSpec(
        family=model.family,
        prediction=model.prediction,
        kind=kind,
        title=words.title.strip() or config.output.name,
        resolution=(side, side),
        layout=_layout(config, model),
        encoder_layer=config.model.clip_skip,
        author=words.author,
        description=words.description,
        license=words.license,
        tags=words.tags,
        trigger_words=words.trigger_words,
        usage_hint=words.usage_hint,
        thumbnail=thumbnail,
        date=date,
    )


def _kind_of(config: TrainConfig) -> FileKind:
    match config.method:
        case Full():
            return "model"
        case Vae():
            return "vae"
        case EmbeddingOnly():
            return "textual-inversion"
        case _:
            return "lora"


def _layout(config: TrainConfig, model: ModelFacts) -> Layout:
    """Whose names the tensors have of what is written.

    A folder tells of itself in its configs; in its weights there is only what is for the way back
    to a single file.
    """
    match config.method:
        case Full() | Vae() | EmbeddingOnly():
            return "original"
        case _:
            return layout_of(base_of(model.family), config.output.lora_naming)


def _training_fields(config: TrainConfig, model: ModelFacts) -> dict[str, object]:
    """How it was trained, without how long. Source of the names: kohya-ss/sd-scripts."""
    side, precision, training = config.data.resolution, config.hardware.precision, config.training
    rates = _rates(config)
    warmup = warmup_steps(config.schedule, steps=training.steps)
    found: dict[str, object] = {
        "output_name": config.output.name,
        "seed": training.seed,
        "resolution": f"({side}, {side})",
        "enable_bucket": True,
        "cache_latents": config.data.cache_latents,
        "clip_skip": config.model.clip_skip or None,
        "zero_terminal_snr": model.zero_terminal_snr,
        "learning_rate": config.optimizer.lr,
        "unet_lr": rates.get("unet"),
        "text_encoder_lr": rates.get("text_encoder", rates.get("text_encoder_2")),
        "optimizer": config.optimizer.target.replace(":", "."),
        "lr_scheduler": schedule_term(config.schedule, warmup_steps=warmup),
        "lr_warmup_steps": warmup,
        "batch_size_per_device": training.batch_size,
        "gradient_accumulation_steps": training.accumulation,
        "total_batch_size": training.batch_size * training.accumulation,
        "max_grad_norm": training.gradient_clipping,
        "gradient_checkpointing": config.hardware.gradient_checkpointing != "off",
        "mixed_precision": "no" if precision == "fp32" else precision,
    }
    if is_hub_name(config.model.path):
        found["sd_model_name"] = config.model.path
    trigger_words = comma_separated(config.metadata.trigger_words)
    return found | ({"trigger_words": trigger_words} if trigger_words else {})


def _rates(config: TrainConfig) -> dict[str, float]:
    """The learning rate of each network that is trained, by its name in the config."""
    match config.method:
        case EmbeddingOnly() | Vae():
            return {}
        case method:
            rate = config.optimizer.lr
            rates = {
                "unet": method.unet.train and (method.unet.lr or rate),
                "text_encoder": method.text_encoder.train and (method.text_encoder.lr or rate),
                "text_encoder_2": method.text_encoder_2.train
                and (method.text_encoder_2.lr or rate),
            }
            return {name: rate for name, rate in rates.items() if rate}


def _progress_fields(config: TrainConfig, dataset: DatasetFacts, step: int) -> dict[str, object]:
    """How long it was trained, in steps and in passes over the pictures begun until then."""
    batch, steps = config.training.batch_size, config.training.steps
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
    if isinstance(value, tuple):
        return [without_paths(one) if isinstance(one, Section) else one for one in value]
    return value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
