"""The held-out pictures of a run, from their list to what is measured."""

import hashlib
import json
from functools import partial

from modules.assembly.run_context import Run
from modules.data.batches import Shelf, load_batch
from modules.evaluation.validation import Grid, ValidationImages
from modules.interfaces import Batch
from modules.training.checkpoints import CheckpointRecord
from onetrainer.concepts.concepts import has_masks
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.mask import Mask
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import Shown, StepPlan
from onetrainer.dataset.dataset import Dataset, is_images_alone
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import plain_view
from onetrainer.metrics.validation_files import ValidationFiles

_SINCE = " since step "


def validation_images(config: TrainConfig, dataset: Dataset, shelf: Shelf) -> ValidationImages:
    """What is measured. shelf: the dataset's held-out pictures, encoded."""
    images = shelf.images
    names = tuple(dataset.name_of(item) for item in images.items)
    seen = hashlib.sha256()
    keys = (names, images.digest_lines(), images.items)
    for name, line, item in sorted(zip(*keys, strict=True), key=lambda one: one[0]):
        seen.update(f"{name}\n{line} {shelf.caption_of(item, 0)}\n".encode())
    buckets = [plain_view(item, dataset.concept_of(item)).bucket for item in images.items]
    return ValidationImages(
        names=names,
        concepts={
            name: _concept_of(dataset, item) for name, item in zip(names, images.items, strict=True)
        },
        digest=seen.hexdigest(),
        sizes=frozenset((bucket.width, bucket.height) for bucket in buckets),
        load=partial(_load, shelf, with_pixels=is_images_alone(config)),
    )


def _concept_of(dataset: Dataset, item: Item) -> str:
    """What the picture's losses are told with: its folder, where there are several."""
    measured = {one.concept for one in dataset.validation or ()}
    if len(measured) < 2:
        return item.group
    name = dataset.concept_of(item).name
    return f"{name}/{item.group}" if item.group else name


def grid_of(config: TrainConfig) -> Grid:
    """Under which noise they are measured: a VAE, which knows no noise, but once."""
    section = config.validation
    if is_images_alone(config):
        return Grid(1, 1, section.seed, _measure(config))
    return Grid(section.timesteps, section.noises, section.seed, _measure(config))


def _measure(config: TrainConfig) -> str:
    """The settings that change what a loss is, or of what."""
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
    return json.dumps(parts, sort_keys=True)


def history_of(images: ValidationImages | None, last: CheckpointRecord | None) -> str:
    """What checkpoints tell of the held-out pictures: which, and since which step; "" if none are.

    last: the checkpoint that the run goes on from. Only where the same pictures were held out up to
    that do earlier measurements count: otherwise they may have been learned in between.
    """
    if images is None:
        return ""
    known = last.validation if last else ""
    is_same = known.rpartition(_SINCE)[0] == images.digest
    return known if is_same else f"{images.digest}{_SINCE}{last.step if last else 0}"


def validation_files(run: Run, images: ValidationImages | None) -> ValidationFiles | None:
    """What the run has measured up to where it goes on; None if nothing is held out."""
    if images is None:
        return None
    files = ValidationFiles(
        run.folder.validation,
        grid=grid_of(run.config).digest(images),
        until=run.last.step if run.last else None,
        since=int(history_of(images, run.last).rpartition(_SINCE)[2]),
    )
    if files.others:
        run.warn(
            "what is held out, or how it is measured, was changed since the checkpoint; held-out"
            " losses from before cannot be compared with those from now on, and do not count"
        )
    return files


def _load(shelf: Shelf, index: int, *, with_pixels: bool) -> Batch:
    """A picture as a step of its own, so that its caption's length depends on no other's."""
    item = shelf.images.items[index]
    bucket = plain_view(item, shelf.concepts[item.concept]).bucket
    alone = StepPlan(0, 0, bucket, microbatches=((Shown(index, 0, 0),),), weight=1.0)
    return load_batch(shelf, alone, 0, with_pixels=with_pixels)
