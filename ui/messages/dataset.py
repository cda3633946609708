"""What a run will do with its pictures, as short facts. No Tk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from onetrainer.config.data.concept import Role
from onetrainer.messages.byte_sizes import format_size
from onetrainer.messages.durations import format_duration
from ui.background.dataset_preview import format_count
from ui.theme.palette import Role as Tone

if TYPE_CHECKING:
    from onetrainer.preview.dataset_preview import AffectedImages, ConceptPreview, DatasetPreview

_MAX_CONCEPTS = 5
_MAX_NAMED = 12
_WHOLE_NUMBERS_FROM = 100
_ROLES: Mapping[Role, str] = MappingProxyType(
    {"train": "", "validation": "measured", "prior": "kept", "own_prediction": "kept"}
)
_ABOUT_ALIKE = (
    "A run holds out pictures that look nearly the same together.",
    "It is not known yet which do, so others may be held out in the end.",
    "“Check pictures” on this page finds out.",
)


@dataclass(frozen=True)
class Fact:
    """One line: what it is about, and what is so. more: what a look closer tells, line by line.

    is_of_part: whether it is about one folder of several.
    """

    label: str
    text: str
    tone: Tone = "text"
    more: tuple[str, ...] = ()
    is_of_part: bool = False


def facts(plan: "DatasetPreview") -> list[Fact]:
    """All that is worth telling, the most important first."""
    # Loaded late: a window that only opens needs nothing of it.
    from onetrainer.messages.dataset import image_totals

    found = [Fact("Pictures", image_totals(plan))]
    if len(plan.concepts) > 1:
        found += [_concept_fact(one) for one in plan.concepts[:_MAX_CONCEPTS]]
        left = plan.concepts[_MAX_CONCEPTS:]
        if left:
            more = tuple(f"{_concept_fact(one).label}: {_concept_fact(one).text}" for one in left)
            found.append(
                Fact(
                    "",
                    f"and {format_count(len(left), 'more folder')}",
                    "dim",
                    more,
                    is_of_part=True,
                )
            )
    found += [
        Fact(
            "An epoch",
            f"{format_count(plan.shown_per_epoch, 'picture')}, {format_count(plan.steps_per_epoch, 'step')}",
            more=_partial_steps_note(plan),
        ),
        Fact("The run", f"{format_count(plan.steps, 'step')}, {_format_epochs(plan.epochs)}"),
        Fact("Shown in all", format_count(plan.shown, "picture")),
        *_warnings(plan),
        _cache_fact(plan),
    ]
    return found


def model_facts(data: Mapping[str, Any]) -> list[Fact]:
    """What only the model can tell of the pictures, of `Forecast.data`; none where it is empty."""
    found = []
    if "caching_seconds" in data:
        text = f"about {format_duration(float(data['caching_seconds']))}"
        found.append(Fact("Caching", text, more=("where nothing of it is there yet",)))
    count = int(data.get("long_caption_count", 0))
    if count:
        told = f"longer than {data['chunk']} tokens: read in pieces, nothing is cut"
        named = [f"{Path(one['path']).name}: {one['tokens']}" for one in data["long_captions"]]
        found.append(Fact("Long captions", f"{count:,}", more=(told, *_first(named))))
    return found


def _concept_fact(one: "ConceptPreview") -> Fact:
    """One folder: "40 · 80 an epoch"."""
    images = one.validation if one.role == "validation" else one.images
    parts = [f"{images:,}"]
    if one.role != "validation" and one.per_epoch != one.images:
        is_whole = one.per_epoch >= _WHOLE_NUMBERS_FROM or one.per_epoch.is_integer()
        parts.append(f"{one.per_epoch:{',.0f' if is_whole else '.4g'}} an epoch")
    if one.loss_weight != 1:
        parts.append(f"weight {one.loss_weight:g}")
    parts += [_ROLES[one.role]] if _ROLES[one.role] else []
    if one.role != "validation" and one.validation:
        parts.append(f"{one.validation:,} held out")
    return Fact(f"   {one.name}", "  ·  ".join(parts), more=(str(one.folder),), is_of_part=True)


def _partial_steps_note(plan: "DatasetPreview") -> tuple[str, ...]:
    if not plan.small_steps:
        return ()
    few = f"In {plan.small_steps:,} of the steps fewer than {plan.full_step:,} pictures are left"
    return (f"{few} of their size; each picture counts the same there.",)


def _warnings(plan: "DatasetPreview") -> Iterator[Fact]:
    """What happens to pictures that their owner may want to know of."""
    if plan.validation_may_change:
        yield Fact("Held out", "others, perhaps: check the pictures to know", more=_ABOUT_ALIKE)
    enlarged = _affected("Enlarged", plan.enlarged, lambda factor: f"{factor:.1f} times")
    yield from enlarged
    yield from _affected("Much cut off", plan.cropped, lambda share: f"{share:.0%}")
    if plan.uncaptioned and plan.captions:
        more = tuple(path.name for path in plan.without_caption)
        more += ("…",) if plan.uncaptioned > len(more) else ()
        yield Fact("No caption", format_count(plan.uncaptioned, "picture"), "warning", more)
    if plan.skipped:
        more = _first([str(one) for one in plan.skipped])
        yield Fact("Left out", format_count(len(plan.skipped), "picture"), "warning", more)
    if plan.notes:
        yield Fact("Also", format_count(len(plan.notes), "note"), "warning", _first(plan.notes))


def _affected(label: str, changed: "AffectedImages", told: Callable[[float], str]) -> list[Fact]:
    if not changed.count:
        return []
    named = [(one.path, one.amount) for one in changed.most]
    text = f"{format_count(changed.count, 'picture')}, up to {told(named[0][1])}"
    more = [f"{Path(path).name}: {told(amount)}" for path, amount in named]
    more += ["…"] if changed.count > len(named) else []
    return [Fact(label, text, "warning", tuple(more))]


def _cache_fact(plan: "DatasetPreview") -> Fact:
    cache = plan.cache
    if not cache.bytes:
        return Fact("Cache", "nothing is kept")
    is_tight = bool(cache.free_bytes) and cache.bytes >= cache.free_bytes
    more = [
        f"{format_count(cache.latents, 'picture')} and {format_count(cache.captions, 'caption')} are encoded",
        f"in {cache.folder}",
    ]
    if cache.free_bytes:
        more.append(f"{format_size(cache.free_bytes)} are free there")
    text = f"{format_size(cache.bytes)} at most"
    if is_tight:
        text += f", but {format_size(cache.free_bytes)} are free"
    return Fact("Cache", text, "warning" if is_tight else "text", tuple(more))


def _format_epochs(epochs: float) -> str:
    if epochs >= _WHOLE_NUMBERS_FROM:
        return format_count(round(epochs), "epoch")
    told = f"{epochs:.2g}" if epochs < 1 else f"{epochs:.1f}".removesuffix(".0")
    return f"{told} epoch{'' if told == '1' else 's'}"


def _first(text: Sequence[str]) -> tuple[str, ...]:
    return tuple(text[:_MAX_NAMED]) + (("…",) if len(text) > _MAX_NAMED else ())
