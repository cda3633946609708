"""Facts about a run's data set for the preview page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetrainer.config.data.concept import Role
from onetrainer.messages.durations import format_duration
from onetrainer.messages.formatting import counted, format_epochs, format_size
from ui.theme.palette import Role as Tone

if TYPE_CHECKING:
    from onetrainer.preview.dataset_preview import AffectedImages, ConceptPreview, DatasetPreview

_MAX_CONCEPTS = 5
_MAX_NAMED = 12
_WHOLE_NUMBERS_FROM = 100
_ROLES: Mapping[Role, str] = {
    "train": "",
    "validation": "validation",
    "prior": "prior",
    "own_prediction": "prior",
}
_NEAR_DUPLICATES_NOTE = (
    "Near-duplicates are kept together in the validation split.",
    "They are not known until all images are examined, so the final split may differ.",
)


@dataclass(frozen=True)
class Fact:
    """One line of facts.

    Attributes:
        more: Details, line by line.
        is_of_part: Whether it is about one of several folders.
    """

    label: str
    text: str
    tone: Tone = "text"
    more: tuple[str, ...] = ()
    is_of_part: bool = False


def facts(preview: "DatasetPreview") -> list[Fact]:
    """Return the facts about a data set, the most important first."""
    # Imported late to keep the start of the window fast.
    from onetrainer.messages.dataset import image_totals

    found = [Fact("Images", image_totals(preview))]
    if len(preview.concepts) > 1:
        found += [_concept_fact(item) for item in preview.concepts[:_MAX_CONCEPTS]]
        left = preview.concepts[_MAX_CONCEPTS:]
        if left:
            more = tuple(
                f"{_concept_fact(item).label}: {_concept_fact(item).text}" for item in left
            )
            found.append(
                Fact(
                    "",
                    f"and {counted(len(left), 'more folder')}",
                    "dim",
                    more,
                    is_of_part=True,
                )
            )
    epoch_images = counted(preview.images_per_epoch, "image")
    epoch_steps = counted(preview.steps_per_epoch, "step")
    found += [
        Fact("Epoch", f"{epoch_images}, {epoch_steps}", more=_partial_steps_note(preview)),
        *_length(preview),
        *_warnings(preview),
        _cache_fact(preview),
    ]
    return found


def _length(preview: "DatasetPreview") -> Iterator[Fact]:
    if preview.steps is not None:
        yield Fact("Run", f"{counted(preview.steps, 'step')}, {format_epochs(preview.epochs)}")
        yield Fact("Total", counted(preview.images_used, "image"))


def model_facts(data: Mapping[str, Any]) -> list[Fact]:
    """Return the facts in `Forecast.data`, which only the model knows; [] if it is empty."""
    found = []
    if "caching_seconds" in data:
        text = f"about {format_duration(float(data['caching_seconds']))}"
        found.append(Fact("Caching", text, more=("if nothing is cached yet",)))
    count = int(data.get("long_caption_count", 0))
    if count:
        note = f"longer than {data['chunk']} tokens: encoded in chunks, nothing is truncated"
        named = [f"{Path(item['path']).name}: {item['tokens']}" for item in data["long_captions"]]
        found.append(Fact("Long captions", f"{count:,}", more=(note, *_first(named))))
    return found


def _concept_fact(item: "ConceptPreview") -> Fact:
    """Return the fact about one folder: "40 · 80 per epoch"."""
    images = item.validation if item.role == "validation" else item.images
    parts = [f"{images:,}"]
    if item.role != "validation" and item.per_epoch != item.images:
        is_whole = item.per_epoch >= _WHOLE_NUMBERS_FROM or item.per_epoch.is_integer()
        parts.append(f"{item.per_epoch:{',.0f' if is_whole else '.4g'}} per epoch")
    if item.loss_weight != 1:
        parts.append(f"weight {item.loss_weight:g}")
    parts += [_ROLES[item.role]] if _ROLES[item.role] else []
    if item.role != "validation" and item.validation:
        parts.append(f"{item.validation:,} for validation")
    return Fact(f"   {item.name}", "  ·  ".join(parts), more=(str(item.folder),), is_of_part=True)


def _partial_steps_note(preview: "DatasetPreview") -> tuple[str, ...]:
    if not preview.small_steps:
        return ()
    few = f"{preview.small_steps:,} of the steps have fewer than {preview.full_step:,} images"
    return (f"{few}, because their bucket has no more; every image has the same weight.",)


def _warnings(preview: "DatasetPreview") -> Iterator[Fact]:
    """Yield facts that may need attention."""
    from onetrainer.messages.dataset import unexamined_text

    if text := unexamined_text(preview):
        yield Fact("Not final", text, more=("Damaged images are left out once they are found.",))
    if preview.validation_may_change:
        yield Fact(
            "Validation split", "may change until all are examined", more=_NEAR_DUPLICATES_NOTE
        )
    yield from _affected("Enlarged", preview.enlarged, lambda factor: f"{factor:.1f} times")
    yield from _affected("Cropped a lot", preview.cropped, lambda share: f"{share:.0%}")
    if preview.uncaptioned and preview.captions:
        more = tuple(path.name for path in preview.without_caption)
        more += ("…",) if preview.uncaptioned > len(more) else ()
        yield Fact("No caption", counted(preview.uncaptioned, "image"), "warning", more)
    if preview.skipped:
        more = _first([str(item) for item in preview.skipped])
        yield Fact("Left out", counted(len(preview.skipped), "image"), "warning", more)
    if preview.notes:
        yield Fact("Notes", counted(len(preview.notes), "note"), "warning", _first(preview.notes))


def _affected(
    label: str, changed: "AffectedImages", format_amount: Callable[[float], str]
) -> list[Fact]:
    if not changed.count:
        return []
    named = [(item.path, item.amount) for item in changed.most]
    text = f"{counted(changed.count, 'image')}, up to {format_amount(named[0][1])}"
    more = [f"{Path(path).name}: {format_amount(amount)}" for path, amount in named]
    more += ["…"] if changed.count > len(named) else []
    return [Fact(label, text, "warning", tuple(more))]


def _cache_fact(preview: "DatasetPreview") -> Fact:
    cache = preview.cache
    if not cache.bytes:
        return Fact("Cache", "off")
    is_tight = bool(cache.free_bytes) and cache.bytes >= cache.free_bytes
    captions = counted(cache.captions, "caption")
    more = [
        f"{counted(cache.latents, 'image')} and {captions} are encoded",
        f"in {cache.folder}",
    ]
    if cache.free_bytes:
        more.append(f"{format_size(cache.free_bytes)} free")
    text = f"{format_size(cache.bytes)} at most"
    if is_tight:
        text += f", only {format_size(cache.free_bytes)} free"
    return Fact("Cache", text, "warning" if is_tight else "text", tuple(more))


def _first(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(texts[:_MAX_NAMED]) + (("…",) if len(texts) > _MAX_NAMED else ())
