"""Facts about the dataset that need the model: time of caching, captions longer than a chunk."""

from dataclasses import replace
from typing import Any

import torch

from modules.families.prompts.prompts import CHUNK
from modules.forecast.model import Stage
from modules.forecast.operator_costs import OperatorCounter
from modules.interfaces import Family
from modules.meta_device.device import DEVICE
from onetrainer.cache.run_entries import open_image_index
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_sampling import sample_caption
from onetrainer.dataset.dataset import Dataset, uses_images_only
from onetrainer.dataset.items import HeaderCache
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.errors import UserError
from onetrainer.presets.step_work import DeviceSpeed
from onetrainer.preview.dataset_preview import DatasetPreview, preview_dataset

MAX_LISTED = 20
"""Number of long captions to list."""
_CAPTION = "a picture"


def forecast_dataset(
    stage: Stage, speed: DeviceSpeed | None, headers: HeaderCache
) -> dict[str, Any]:
    """Return `Forecast.data` of a run; empty without images or if they cannot be read.

    speed: None for another device than this one, whose speed is unknown. headers: Images'
    headers that were read already.
    """
    plan = _read_dataset(stage.config, headers)
    if plan is None:
        return {}
    facts: dict[str, Any] = {}
    if speed is not None and (plan.cache.latents or plan.cache.captions):
        facts["caching_seconds"] = _caching_seconds(stage, plan, speed)
    if not uses_images_only(stage.config):
        has_embeddings = bool(stage.config.embeddings.tokens)
        facts |= long_captions(
            stage.model.attached.family, plan.dataset, has_embeddings=has_embeddings
        )
    return facts


def long_captions(
    family: Family, dataset: Dataset, *, has_embeddings: bool = False
) -> dict[str, Any]:
    """Return the captions of more than a chunk of tokens, as `Forecast.data` has them.

    Counts captions at their longest, without dropout. has_embeddings: Whether the model has
    embeddings of several vectors.
    """
    longest: dict[str, int] = {}
    # A token has at least one byte, so most captions need not be tokenized.
    least = 0 if has_embeddings else CHUNK
    for item in (*dataset.items, *(dataset.validation or ())):
        concept = dataset.concepts[item.concept]
        whole = concept.captions.model_copy(update={"dropout": 0.0, "drop_tags": "off"})
        concept = replace(concept, captions=whole)
        for turn in range(len(item.captions)):
            caption = sample_caption(item, concept, turn)
            if len(caption.encode()) <= least:
                continue
            count = family.count_tokens(caption)
            if count > CHUNK:
                path = str(item.path)
                longest[path] = max(count, longest.get(path, 0))
    ordered = sorted(longest.items(), key=lambda entry: -entry[1])[:MAX_LISTED]
    return {
        "chunk": CHUNK,
        "long_caption_count": len(longest),
        "long_captions": [{"path": path, "tokens": count} for path, count in ordered],
    }


def _read_dataset(config: TrainConfig, headers: HeaderCache) -> DatasetPreview | None:
    try:
        with open_image_index(config) as memory:
            return preview_dataset(config, PixelFacts(memory), headers=headers)
    except UserError:
        return None  # the images may come later


def _caching_seconds(stage: Stage, plan: DatasetPreview, speed: DeviceSpeed) -> float:
    """Return the time of encoding; images are read in parallel."""
    family, bucket = stage.model.attached.family, stage.bucket
    seconds = 0.0
    with torch.no_grad():
        if plan.cache.latents:
            with OperatorCounter() as work:
                family.encode_images(torch.zeros(1, 3, bucket.height, bucket.width, device=DEVICE))
            each = speed.seconds(work.operations) / (bucket.width * bucket.height)
            seconds += each * plan.cache.pixels
        if plan.cache.captions:
            with OperatorCounter() as work:
                family.encode_text([_CAPTION])
            seconds += speed.seconds(work.operations) * plan.cache.captions
    return seconds
