"""Format a dataset preview as text and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onetrainer.config.data.concept import Role
from onetrainer.images.findings import printable
from onetrainer.messages.byte_sizes import format_size
from onetrainer.preview.dataset_preview import (
    MIN_CROPPED,
    MIN_UPSCALING,
    AffectedImages,
    BucketPreview,
    ConceptPreview,
    DatasetPreview,
)

_NAMED = 3
_LETTERS = 400
"""Longer captions are shortened; --json has them in full."""
_DIGITS = 1000
"""Fractions are omitted from this number on."""
_ROLES: Mapping[Role, str] = MappingProxyType(
    {
        "train": "training",
        "validation": "validation",
        "prior": "prior preservation",
        "own_prediction": "prior preservation, own prediction",
    }
)


def format_preview(preview: DatasetPreview) -> list[str]:
    """Return the preview for a terminal."""
    lines = [f"Images: {image_totals(preview)}.", ""]
    if len(preview.concepts) > 1:
        rows = [["folder", "images", "per epoch", ""], *map(_concept_row, preview.concepts)]
        lines += [*_table(rows), ""]
    lines += [*run_length_lines(preview), ""]
    rows = [["bucket", "images", "per epoch", "steps"], *map(_bucket_row, preview.buckets)]
    lines += [*_table(rows), ""]
    lines += [*remark_lines(preview), *caption_lines(preview)]
    return [printable(line) for line in (*lines, cache_line(preview))]


def image_totals(preview: DatasetPreview) -> str:
    """Return the numbers of images by use: "20 training, 100 class, 3 validation"."""
    trained = sum(entry.images for entry in preview.concepts if entry.role == "train")
    parts = [f"{_count(trained)} training"]
    if preview.images > trained:
        parts.append(f"{_count(preview.images - trained)} class")
    if preview.validation:
        parts.append(f"{_count(preview.validation)} validation")
    return ", ".join(parts)


def run_length_lines(preview: DatasetPreview) -> list[str]:
    """Return sentences about the length of an epoch and of the run."""
    lines = [
        f"An epoch has {_counted(preview.images_per_epoch, 'image')} in"
        f" {_counted(preview.steps_per_epoch, 'step')}; {_counted(preview.steps, 'step')} are"
        f" {_epochs(preview.epochs)} with {_counted(preview.images_used, 'image')}."
    ]
    if preview.small_steps:
        lines.append(
            f"{_counted(preview.small_steps, 'step')} of an epoch"
            f" {'has' if preview.small_steps == 1 else 'have'} fewer than"
            f" {preview.full_step} images; each image counts the same."
        )
    return lines


def remark_lines(preview: DatasetPreview) -> list[str]:
    """Return sentences about what happens to images that people may want to know."""
    lines = _changed(
        preview.enlarged,
        f"enlarged more than {MIN_UPSCALING:g} times",
        lambda factor: f"{factor:.1f} times",
    )
    lines += _changed(
        preview.cropped, f"cropped by more than {MIN_CROPPED:.0%}", lambda share: f"{share:.0%}"
    )
    if preview.uncaptioned and preview.captions:
        some = ", ".join(path.name for path in preview.without_caption[:_NAMED])
        more = " …" if preview.uncaptioned > _NAMED else ""
        lines.append(f"{_counted(preview.uncaptioned, 'image')} without a caption: {some}{more}.")
    if preview.skipped:
        some = "; ".join(map(str, preview.skipped[:_NAMED]))
        more = " …" if len(preview.skipped) > _NAMED else ""
        count = _counted(len(preview.skipped), "image")
        lines.append(f"{count} skipped: {some}{more}.")
    if preview.validation_may_change:
        lines.append(
            "Near-duplicates are kept together in the validation split. They are not known yet, so"
            " the run may choose other validation images; check the images to find them."
        )
    lines += [f"{note}." for note in preview.notes[:_NAMED]]
    if (rest := len(preview.notes) - _NAMED) > 0:
        lines.append(f"And {_counted(rest, 'note')} more; --json lists all.")
    return lines


def caption_lines(preview: DatasetPreview) -> list[str]:
    """Return example captions, each below the name of its image."""
    if not preview.captions:
        return []
    lines = ["Examples of captions:"]
    for entry in preview.captions:
        lines.append(f"  {entry.path.name}")
        lines += [f"    {_shortened(caption) or '(no caption)'}" for caption in entry.samples]
    return lines


def cache_line(preview: DatasetPreview) -> str:
    """Return what is cached, and whether there is enough space."""
    cache = preview.cache
    if not cache.bytes:
        return "Cache: nothing is cached."
    each = (
        "image"
        if cache.latents == preview.images + (preview.validation or 0)
        else "image variation"
    )
    what = [_counted(cache.latents, each)] if cache.latents else []
    what += [_counted(cache.captions, "caption")] if cache.captions else []
    text = f"Cache: {' and '.join(what)}, {format_size(cache.bytes)} at most, in {cache.folder}"
    if not cache.free_bytes:
        return f"{text}."
    room = "are free there" if cache.bytes < cache.free_bytes else "are free there, too little"
    return f"{text}; {format_size(cache.free_bytes)} {room}."


def as_document(preview: DatasetPreview) -> dict[str, Any]:
    """Return the preview as data for `--json`."""
    cache = preview.cache
    return {
        "pictures": preview.images,
        "held_out": preview.validation,
        "concepts": [
            {
                "name": entry.name,
                "role": entry.role,
                "folder": str(entry.folder),
                "pictures": entry.images,
                "held_out": entry.validation,
                "per_epoch": entry.per_epoch,
                "loss_weight": entry.loss_weight,
            }
            for entry in preview.concepts
        ],
        "buckets": [
            {
                "width": entry.bucket.width,
                "height": entry.bucket.height,
                "pictures": entry.images,
                "shown": entry.images_used,
                "steps": entry.steps,
            }
            for entry in preview.buckets
        ],
        "steps": preview.steps,
        "steps_per_epoch": preview.steps_per_epoch,
        "small_steps": preview.small_steps,
        "shown_per_epoch": preview.images_per_epoch,
        "epochs": preview.epochs,
        "shown": preview.images_used,
        "enlarged": _changed_document(preview.enlarged, "factor"),
        "cut": _changed_document(preview.cropped, "share"),
        "captions": [
            {"path": str(entry.path), "drawn": list(entry.samples)} for entry in preview.captions
        ],
        "uncaptioned": preview.uncaptioned,
        "without_caption": [str(path) for path in preview.without_caption],
        "skipped": [{"path": str(entry.path), "reason": entry.reason} for entry in preview.skipped],
        "notes": list(preview.notes),
        "holds_out_alike": preview.validation_may_change,
        "cache": {
            "folder": str(cache.folder),
            "views": cache.latents,
            "captions": cache.captions,
            "picture_bytes": cache.image_bytes,
            "caption_bytes": cache.caption_bytes,
            "free_bytes": cache.free_bytes,
        },
    }


def _changed_document(changed: AffectedImages, name: str) -> dict[str, Any]:
    most = [{"path": str(entry.path), name: entry.amount} for entry in changed.most]
    return {"count": changed.count, "most": most}


def _bucket_row(entry: BucketPreview) -> list[str]:
    size = f"{entry.bucket.width} × {entry.bucket.height}"
    return [size, *map(_count, (entry.images, entry.images_used, entry.steps))]


def _concept_row(entry: ConceptPreview) -> list[str]:
    images = entry.validation if entry.role == "validation" else entry.images
    each = entry.per_epoch
    is_whole = each >= _DIGITS or each.is_integer()
    per_epoch = (_count(round(each)) if is_whole else f"{each:.4g}") if each else "-"
    description = _ROLES[entry.role]
    if entry.role != "validation" and entry.validation:
        description += f", {_count(entry.validation)} validation"
    return [entry.name, _count(images), per_epoch, description]


def _changed(changed: AffectedImages, description: str, text: Callable[[float], str]) -> list[str]:
    if not changed.count:
        return []
    some = changed.most[:_NAMED]
    named = ", ".join(f"{entry.path.name} ({text(entry.amount)})" for entry in some)
    more = " …" if changed.count > len(some) else ""
    return [f"{_counted(changed.count, 'image')} {description}: {named}{more}."]


def _shortened(caption: str) -> str:
    """Return a caption shortened to a few lines of a terminal."""
    if len(caption) <= _LETTERS:
        return caption
    return f"{caption[:_LETTERS].rstrip()} … ({_counted(len(caption.split()), 'word')})"


def _epochs(epochs: float) -> str:
    """Return a number of epochs: "9.5 epochs"."""
    text = f"{epochs:.2g}" if epochs < 1 else f"{epochs:,.1f}".removesuffix(".0")
    if epochs >= 100:
        text = _count(round(epochs))
    return f"{text} epoch{'' if text == '1' else 's'}"


def _count(count: int) -> str:
    return f"{count:,}"


def _counted(count: int, noun: str) -> str:
    return f"{_count(count)} {noun}{'' if count == 1 else 's'}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return indented rows; the first and fourth columns to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        (
            f"  {row[0].ljust(widths[0])}  {row[1].rjust(widths[1])}  {row[2].rjust(widths[2])}"
            f"  {row[3]}"
        ).rstrip()
        for row in rows
    ]
