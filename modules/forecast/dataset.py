"""What only the model can tell of pictures beforehand: how long caching takes, long captions."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from modules.families.prompts.prompts import CHUNK
from modules.forecast.meta_run import Stage
from modules.forecast.operator_costs import Machine, OperatorCounter
from modules.interfaces import Family
from modules.meta_device.device import DEVICE
from onetrainer.cache.run_entries import open_image_index
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_sampling import sample_caption
from onetrainer.dataset.dataset import Dataset, uses_images_only
from onetrainer.dataset.items import HeaderCache
from onetrainer.errors import UserError
from onetrainer.preview.dataset_preview import DatasetPreview, preview_dataset

NAMED = 20
"""So many long captions are named."""
_WORDS = "a picture"


def forecast_dataset(stage: Stage, machine: Machine | None, headers: HeaderCache) -> dict[str, Any]:
    """What `Forecast.data` tells of a run; empty where its pictures cannot be read, or are none.

    machine: None where it is another than this one, so that nothing is known of its time.
    headers: of pictures that were read already.
    """
    plan = _read(stage.config, headers)
    if plan is None:
        return {}
    found: dict[str, Any] = {}
    if machine is not None and (plan.cache.latents or plan.cache.captions):
        found["caching_seconds"] = _seconds(stage, plan, machine)
    if not uses_images_only(stage.config):
        has_words = bool(stage.config.embeddings.tokens)
        found |= long_captions(stage.attached.family, plan.dataset, has_words=has_words)
    return found


def long_captions(family: Family, dataset: Dataset, *, has_words: bool = False) -> dict[str, Any]:
    """Pictures with captions of more than a chunk of tokens, as `Forecast.data` has them.

    At their longest: with nothing left out of them that may be. has_words: whether the model knows
    words of several vectors.
    """
    longest: dict[str, int] = {}
    # A token takes a byte at least, so that most captions need not be counted.
    least = 0 if has_words else CHUNK
    for item in (*dataset.items, *(dataset.validation or ())):
        concept = _whole(dataset.concepts[item.concept])
        for turn in range(len(item.captions)):
            caption = sample_caption(item, concept, turn)
            if len(caption.encode()) <= least:
                continue
            count = family.count_tokens(caption)
            if count > CHUNK:
                path = str(item.path)
                longest[path] = max(count, longest.get(path, 0))
    ordered = sorted(longest.items(), key=lambda one: -one[1])[:NAMED]
    return {
        "chunk": CHUNK,
        "long_caption_count": len(longest),
        "long_captions": [{"path": path, "tokens": count} for path, count in ordered],
    }


def _read(config: TrainConfig, headers: HeaderCache) -> DatasetPreview | None:
    try:
        with open_image_index(config) as memory:
            return preview_dataset(config, headers=headers, image_index=memory)
    except UserError:
        return None  # they need not be there yet


def _whole(concept: ConceptSettings) -> ConceptSettings:
    """The same with captions of which nothing is left out."""
    whole = concept.captions.model_copy(update={"dropout": 0.0, "drop_tags": "off"})
    return replace(concept, captions=whole)


def _seconds(stage: Stage, plan: DatasetPreview, machine: Machine) -> float:
    """How long encoding takes. Reading pictures goes on beside it."""
    family, bucket = stage.attached.family, stage.bucket
    seconds = 0.0
    with torch.no_grad():
        if plan.cache.latents:
            with OperatorCounter() as work:
                family.encode_images(_pixels(stage))
            each = machine.seconds(work) / (bucket.width * bucket.height)
            seconds += each * plan.cache.pixels
        if plan.cache.captions:
            with OperatorCounter() as work:
                family.encode_text([_WORDS])
            seconds += machine.seconds(work) * plan.cache.captions
    return seconds


def _pixels(stage: Stage) -> Tensor:
    """A picture of the run's largest size."""
    return torch.zeros(1, 3, stage.bucket.height, stage.bucket.width, device=DEVICE)
