"""Format a dataset preview as text and as JSON."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from onetrainer.config.data.concept import Role
from onetrainer.dataset.buckets import Bucket
from onetrainer.errors import sentence
from onetrainer.images.findings import printable
from onetrainer.messages.formatting import counted, format_epochs, format_size, some, table
from onetrainer.preview.dataset_preview import (
    MIN_CROPPED,
    MIN_UPSCALING,
    AffectedImages,
    BucketPreview,
    ConceptPreview,
    DatasetPreview,
)

_NOTES = 12
_LETTERS = 400
"""Longer captions are shortened; --json has them in full."""
_DIGITS = 1000
"""Fractions are omitted from this number on."""
_ROLES: Mapping[Role, str] = {
    "train": "training",
    "validation": "validation",
    "prior": "prior preservation",
    "own_prediction": "prior preservation, own prediction",
}
_NOT_IN_JSON = ("batches", "dataset", "full_step", "pixels")


def format_preview(preview: DatasetPreview) -> list[str]:
    """Return the preview for a terminal."""
    lines = [f"Images: {image_totals(preview)}.", ""]
    if len(preview.concepts) > 1:
        rows = [["folder", "images", "per epoch", ""], *map(_concept_row, preview.concepts)]
        lines += [*(f"  {line}" for line in table(rows, left=(0, 3))), ""]
    lines += [*_run_length_lines(preview), ""]
    rows = [["bucket", "images", "per epoch", "batches"], *map(_bucket_row, preview.buckets)]
    lines += [*(f"  {line}" for line in table(rows, left=(0, 3))), ""]
    lines += [*_remark_lines(preview), *_caption_lines(preview)]
    return [printable(line) for line in (*lines, _cache_line(preview))]


def image_totals(preview: DatasetPreview) -> str:
    """Return the numbers of images by use: "20 training, 100 class, 3 validation"."""
    trained = sum(entry.images for entry in preview.concepts if entry.role == "train")
    parts = [f"{trained:,} training"]
    if preview.images > trained:
        parts.append(f"{preview.images - trained:,} class")
    if preview.validation:
        parts.append(f"{preview.validation:,} validation")
    return ", ".join(parts)


def run_totals(preview: DatasetPreview) -> str:
    """Return the length of a run that is not given in minutes: "9 steps are 2 epochs with …"."""
    assert preview.steps is not None
    verb = "is" if preview.steps == 1 else "are"
    return (
        f"{counted(preview.steps, 'step')} {verb} {format_epochs(preview.epochs)} with"
        f" {counted(preview.images_used, 'image')}"
    )


def unexamined_text(preview: DatasetPreview) -> str:
    """Return that some images were not examined; "" if all were."""
    count = preview.unexamined
    if not count:
        return ""
    every = preview.images + (preview.validation or 0)
    some = f"{count:,} of {counted(every, 'image')}" if count < every else counted(count, "image")
    return f"{some} not examined yet"


def as_document(preview: DatasetPreview) -> dict[str, Any]:
    """Return the preview as data for `--json`."""
    document: dict[str, Any] = _as_json(preview)
    return document


def _as_json(value: Any) -> Any:  # noqa: ANN401 # whatever a preview holds
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_as_json(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _as_json(entry) for key, entry in value.items()}
    if not is_dataclass(value):
        return value
    document: dict[str, Any] = {}
    for name in (field.name for field in fields(value)):
        entry = getattr(value, name)
        if isinstance(entry, Bucket):
            document |= {"width": entry.width, "height": entry.height}
        elif name not in _NOT_IN_JSON:
            document[name] = _as_json(entry)
    return document


def _run_length_lines(preview: DatasetPreview) -> list[str]:
    """Return sentences about the length of an epoch and of the run."""
    epoch = (
        f"An epoch has {counted(preview.images_per_epoch, 'image')} in"
        f" {counted(preview.steps_per_epoch, 'step')}"
    )
    lines = [f"{epoch}{f'; {run_totals(preview)}' if preview.steps is not None else ''}."]
    if preview.small_steps:
        lines.append(
            f"{counted(preview.small_steps, 'step')} of an epoch"
            f" {'has' if preview.small_steps == 1 else 'have'} fewer than"
            f" {preview.full_step} images; each image counts the same."
        )
    return lines


def _remark_lines(preview: DatasetPreview) -> list[str]:
    """Return sentences about what happens to images that people may want to know."""
    lines = _changed(
        preview.enlarged, f"enlarged more than {MIN_UPSCALING:g} times", "{:.1f} times"
    )
    lines += _changed(preview.cropped, f"cropped by more than {MIN_CROPPED:.0%}", "{:.0%}")
    if preview.uncaptioned and preview.captions:
        names = some((path.name for path in preview.without_caption), preview.uncaptioned)
        lines.append(f"{counted(preview.uncaptioned, 'image')} without a caption: {names}.")
    if preview.skipped:
        count = len(preview.skipped)
        names = some(preview.skipped, count, separator="; ")
        lines.append(f"{counted(count, 'image')} left out: {names}.")
    if text := unexamined_text(preview):
        lines.append(f"{text}: damaged ones are left out once they are found.")
    if preview.validation_may_change:
        lines.append(
            "Near-duplicates are kept together in the validation split. They are not known yet, so"
            " the run may choose other validation images; check the images to find them."
        )
    lines += [sentence(note) for note in preview.notes[:_NOTES]]
    if (rest := len(preview.notes) - _NOTES) > 0:
        lines.append(f"And {counted(rest, 'note')} more; --json lists all.")
    return lines


def _caption_lines(preview: DatasetPreview) -> list[str]:
    """Return example captions, each below the name of its image."""
    lines = ["Examples of captions:"] if preview.captions else []
    for entry in preview.captions:
        lines.append(f"  {entry.path.name}")
        lines += [f"    {_shortened(caption) or '(no caption)'}" for caption in entry.samples]
    return lines


def _cache_line(preview: DatasetPreview) -> str:
    """Return what is cached, and whether there is enough space."""
    cache = preview.cache
    if not cache.bytes:
        return "Cache: nothing is cached."
    is_each_once = cache.latents == preview.images + (preview.validation or 0)
    noun = "image" if is_each_once else "image variation"
    what = [counted(cache.latents, noun)] if cache.latents else []
    what += [counted(cache.captions, "caption")] if cache.captions else []
    text = f"Cache: {' and '.join(what)}, {format_size(cache.bytes)} at most, in {cache.folder}"
    if not cache.free_bytes:
        return f"{text}."
    room = "are free there" if cache.bytes < cache.free_bytes else "are free there, too little"
    return f"{text}; {format_size(cache.free_bytes)} {room}."


def _bucket_row(entry: BucketPreview) -> list[str]:
    size = f"{entry.bucket.width} × {entry.bucket.height}"
    return [size, f"{entry.images:,}", f"{entry.images_used:,}", f"{entry.batches:,}"]


def _concept_row(entry: ConceptPreview) -> list[str]:
    images = entry.validation if entry.role == "validation" else entry.images
    each = entry.per_epoch
    is_whole = each >= _DIGITS or each.is_integer()
    per_epoch = (f"{round(each):,}" if is_whole else f"{each:.4g}") if each else "-"
    description = _ROLES[entry.role]
    if entry.role != "validation" and entry.validation:
        description += f", {entry.validation:,} validation"
    return [entry.name, f"{images:,}", per_epoch, description]


def _changed(changed: AffectedImages, description: str, amount: str) -> list[str]:
    if not changed.count:
        return []
    names = (f"{entry.path.name} ({amount.format(entry.amount)})" for entry in changed.most)
    return [f"{counted(changed.count, 'image')} {description}: {some(names, changed.count)}."]


def _shortened(caption: str) -> str:
    """Return a caption shortened to a few lines of a terminal."""
    if len(caption) <= _LETTERS:
        return caption
    return f"{caption[:_LETTERS].rstrip()} … ({counted(len(caption.split()), 'word')})"
