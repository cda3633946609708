"""What a run will do with its pictures, as short facts. No Tk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from onetrainer.config.data.concept import Role
from onetrainer.messages.byte_sizes import amount
from onetrainer.messages.durations import about
from ui.background.dataset_preview import counted
from ui.theme.palette import Role as Tone

if TYPE_CHECKING:
    from onetrainer.preview.dataset_preview import Changed, ConceptPlan, DataPlan

_MOST_CONCEPTS = 5
_NAMED = 12
_WHOLE_FROM = 100
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
    words: str
    tone: Tone = "text"
    more: tuple[str, ...] = ()
    is_of_part: bool = False


def facts(plan: "DataPlan") -> list[Fact]:
    """All that is worth telling, the most important first."""
    # Loaded late: a window that only opens needs nothing of it.
    from onetrainer.messages.dataset import totals

    found = [Fact("Pictures", totals(plan))]
    if len(plan.concepts) > 1:
        found += [_concept(one) for one in plan.concepts[:_MOST_CONCEPTS]]
        left = plan.concepts[_MOST_CONCEPTS:]
        if left:
            more = tuple(f"{_concept(one).label}: {_concept(one).words}" for one in left)
            found.append(
                Fact("", f"and {counted(len(left), 'more folder')}", "dim", more, is_of_part=True)
            )
    found += [
        Fact(
            "An epoch",
            f"{counted(plan.shown_per_epoch, 'picture')}, {counted(plan.steps_per_epoch, 'step')}",
            more=_small(plan),
        ),
        Fact("The run", f"{counted(plan.steps, 'step')}, {_epochs(plan.epochs)}"),
        Fact("Shown in all", counted(plan.shown, "picture")),
        *_remarkable(plan),
        _cache(plan),
    ]
    return found


def facts_of_model(data: Mapping[str, Any]) -> list[Fact]:
    """What only the model can tell of the pictures, of `Forecast.data`; none where it is empty."""
    found = []
    if "caching_seconds" in data:
        words = f"about {about(float(data['caching_seconds']))}"
        found.append(Fact("Caching", words, more=("where nothing of it is there yet",)))
    count = int(data.get("long_caption_count", 0))
    if count:
        told = f"longer than {data['chunk']} tokens: read in pieces, nothing is cut"
        named = [f"{Path(one['path']).name}: {one['tokens']}" for one in data["long_captions"]]
        found.append(Fact("Long captions", f"{count:,}", more=(told, *_some(named))))
    return found


def _concept(one: "ConceptPlan") -> Fact:
    """One folder: "40 · 80 an epoch"."""
    images = one.validation if one.role == "validation" else one.images
    parts = [f"{images:,}"]
    if one.role != "validation" and one.per_epoch != one.images:
        is_whole = one.per_epoch >= _WHOLE_FROM or one.per_epoch.is_integer()
        parts.append(f"{one.per_epoch:{',.0f' if is_whole else '.4g'}} an epoch")
    if one.loss_weight != 1:
        parts.append(f"weight {one.loss_weight:g}")
    parts += [_ROLES[one.role]] if _ROLES[one.role] else []
    if one.role != "validation" and one.validation:
        parts.append(f"{one.validation:,} held out")
    return Fact(f"   {one.name}", "  ·  ".join(parts), more=(str(one.folder),), is_of_part=True)


def _small(plan: "DataPlan") -> tuple[str, ...]:
    if not plan.small_steps:
        return ()
    few = f"In {plan.small_steps:,} of the steps fewer than {plan.full_step:,} pictures are left"
    return (f"{few} of their size; each picture counts the same there.",)


def _remarkable(plan: "DataPlan") -> Iterator[Fact]:
    """What happens to pictures that their owner may want to know of."""
    if plan.holds_out_alike:
        yield Fact("Held out", "others, perhaps: check the pictures to know", more=_ABOUT_ALIKE)
    enlarged = _changed("Enlarged", plan.enlarged, lambda factor: f"{factor:.1f} times")
    yield from enlarged
    yield from _changed("Much cut off", plan.cut, lambda share: f"{share:.0%}")
    if plan.uncaptioned and plan.captions:
        more = tuple(path.name for path in plan.without_caption)
        more += ("…",) if plan.uncaptioned > len(more) else ()
        yield Fact("No caption", counted(plan.uncaptioned, "picture"), "warning", more)
    if plan.skipped:
        more = _some([str(one) for one in plan.skipped])
        yield Fact("Left out", counted(len(plan.skipped), "picture"), "warning", more)
    if plan.notes:
        yield Fact("Also", counted(len(plan.notes), "note"), "warning", _some(plan.notes))


def _changed(label: str, changed: "Changed", told: Callable[[float], str]) -> list[Fact]:
    if not changed.count:
        return []
    named = [(one.path, one.amount) for one in changed.most]
    words = f"{counted(changed.count, 'picture')}, up to {told(named[0][1])}"
    more = [f"{Path(path).name}: {told(amount)}" for path, amount in named]
    more += ["…"] if changed.count > len(named) else []
    return [Fact(label, words, "warning", tuple(more))]


def _cache(plan: "DataPlan") -> Fact:
    cache = plan.cache
    if not cache.bytes:
        return Fact("Cache", "nothing is kept")
    is_tight = bool(cache.free_bytes) and cache.bytes >= cache.free_bytes
    more = [
        f"{counted(cache.views, 'picture')} and {counted(cache.captions, 'caption')} are encoded",
        f"in {cache.folder}",
    ]
    if cache.free_bytes:
        more.append(f"{amount(cache.free_bytes)} are free there")
    words = f"{amount(cache.bytes)} at most"
    if is_tight:
        words += f", but {amount(cache.free_bytes)} are free"
    return Fact("Cache", words, "warning" if is_tight else "text", tuple(more))


def _epochs(epochs: float) -> str:
    if epochs >= _WHOLE_FROM:
        return counted(round(epochs), "epoch")
    told = f"{epochs:.2g}" if epochs < 1 else f"{epochs:.1f}".removesuffix(".0")
    return f"{told} epoch{'' if told == '1' else 's'}"


def _some(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(words[:_NAMED]) + (("…",) if len(words) > _NAMED else ())
