"""Validation images of a run."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import partial

from modules.assembly.run_context import Run
from modules.data.batches import BatchSource, read_batch
from modules.evaluation.validation import Grid, ValidationImages
from modules.interfaces import Batch
from modules.training.checkpoint_record import CheckpointRecord
from onetrainer.concepts.concepts import has_masks
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.mask import Mask
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import ImageRepeat, StepPlan
from onetrainer.dataset.dataset import Dataset, uses_images_only
from onetrainer.dataset.transforms import bucket_at
from onetrainer.metrics.files import LOSSES, LossesByWeights, MeasurementFiles

_SINCE = " since step "
_FILE_DIGEST = 16
"""Letters of a file's digest: two of a million differ in all but one of ten million cases."""


def validation_images(
    config: TrainConfig, dataset: Dataset, batch_source: BatchSource
) -> ValidationImages:
    """Return the validation images. batch_source: the dataset's encoded validation images."""
    images = batch_source.images
    names = tuple(dataset.name_of(item) for item in images.items)
    captions = [batch_source.caption_of(item, 0) for item in images.items]
    sizes = [bucket_at(item, dataset.concept_of(item), 0) for item in images.items]
    has_several = len({item.concept for item in dataset.validation or ()}) > 1
    groups = {}
    for name, item in zip(names, images.items, strict=True):
        concept = [dataset.concept_of(item).name] if has_several else []
        groups[name] = "/".join([*concept, *([item.group] if item.group else [])])
    return ValidationImages(
        names=names,
        concepts=groups,
        files=tuple(each[:_FILE_DIGEST] for each in images.file_digests()),
        digest=_digest(names, images.identity_lines(), captions),
        former_digest=_digest(names, images.digest_lines(), captions),
        sizes=frozenset((bucket.width, bucket.height) for bucket in sizes),
        load=partial(_load_image, batch_source, with_pixels=uses_images_only(config)),
    )


def _digest(names: Sequence[str], lines: Iterable[str], captions: Sequence[str]) -> str:
    digest = hashlib.sha256()
    entries = zip(names, lines, captions, strict=True)
    for name, line, caption in sorted(entries, key=lambda entry: entry[0]):
        digest.update(f"{name}\n{line} {caption}\n".encode())
    return digest.hexdigest()


def grid_of(config: TrainConfig) -> Grid:
    """Return the noise levels and noises of validation; one of each for a VAE, which uses none."""
    section = config.validation
    if uses_images_only(config):
        return Grid(1, 1, section.seed, _loss_settings(config))
    return Grid(section.timesteps, section.noises, section.seed, _loss_settings(config))


def _loss_settings(config: TrainConfig) -> str:
    """Return the settings that affect losses, as text."""
    model, objective = config.model, config.objective
    parts: dict[str, object] = {"average": config.ema.use}
    if isinstance(objective, Reconstruction):
        parts |= {"l1": objective.l1, "l2": objective.l2, "lpips": objective.lpips}
    else:
        parts |= {
            "prediction": model.prediction,
            "clip skip": model.clip_skip,
            "zero snr": model.zero_terminal_snr,
        }
        if has_masks(config):
            mask = objective.mask if isinstance(objective, Denoising) else Mask()
            parts["unmasked"] = mask.unmasked_weight
    if model.circular_padding:
        parts["circular padding"] = True
    return json.dumps(parts, sort_keys=True)


def validation_record(images: ValidationImages | None, last: CheckpointRecord | None) -> str:
    """Return the validation record for checkpoints: the images' digest and "since step".

    "" without validation. Earlier measurements count only if the same images were held out up to
    the checkpoint `last`: otherwise they may have been trained on in between.
    """
    if images is None:
        return ""
    since = last.validation.rpartition(_SINCE)[2] if last else ""
    if held_out_digest(last) not in (images.digest, images.former_digest):
        since = str(last.step if last else 0)
    return f"{images.digest}{_SINCE}{since}"


def held_out_digest(last: CheckpointRecord | None) -> str:
    """Return the digest of the validation images in a checkpoint's record; "" without any."""
    return last.validation.rpartition(_SINCE)[0] if last else ""


def validation_files(run: Run, images: ValidationImages) -> MeasurementFiles[LossesByWeights]:
    """Return the past measurements of a run."""
    files = MeasurementFiles(
        run.folder.validation,
        LOSSES,
        grid=grid_of(run.config).digest(images.digest),
        former_grid=grid_of(run.config).digest(images.former_digest),
        until=run.last.step if run.last else None,
        since=int(validation_record(images, run.last).rpartition(_SINCE)[2]),
    )
    for text in files.damaged:
        run.warn(text)
    if files.incomparable:
        run.warn(
            "the validation images or their measurement have changed since the checkpoint; earlier"
            " validation losses cannot be compared with later ones and are ignored"
        )
    return files


def _load_image(batch_source: BatchSource, index: int, *, with_pixels: bool) -> Batch:
    """Load an image as a step of its own, so that padding does not depend on other captions."""
    plan = StepPlan(0, 0, microbatches=((ImageRepeat(index, 0, 0),),), weight=1.0)
    return read_batch(batch_source, plan, 0, with_pixels=with_pixels)()
