"""Initial values of new list entries."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from onetrainer.config.fields import Setting
from onetrainer.config.run.schedule import Point
from onetrainer.json_file import Document
from onetrainer.presets.presets import value_at
from ui.model.form_fields import display_text
from ui.model.variants import entries_of

_NUMBERED = re.compile(r"^(.*?)(?:-(\d+))?([>\])}]*)$", re.DOTALL)
_DIGITS = 4


def entry_noun(setting: Setting) -> str:
    """Return what one entry of a list is called: "Folder" for the list "More folders"."""
    noun = setting.ui.label.partition(" by ")[0].removeprefix("More ")
    return noun.rstrip("s").capitalize()


def entry_title(setting: Setting, entry: Document) -> str:
    """Return the title of an entry: its first text, or the last part of its path."""
    texts = [inner for inner in entries_of(setting) if inner.kind == "text"]
    for inner in sorted(texts, key=lambda inner: inner.ui.is_path):
        text = str(entry.get(inner.path) or "").strip()
        if text and "." not in inner.path and inner.ui.level == "basic" and not inner.ui.only_with:
            return PurePath(text).name if inner.ui.is_path else text
    return ""


def entry_summary(setting: Setting, entry: Document) -> list[str]:
    """Return what distinguishes an entry: its paths and its values that are not defaults."""
    found = []
    for inner in entries_of(setting):
        value = value_at(entry, inner.path)
        if inner.ui.is_path and value:
            found.append(str(value))
        elif "." not in inner.path and inner.kind != "text" and value != inner.default:
            found.append(f"{inner.ui.label}: {display_text(value, inner)}")
    return found


def new_entry(setting: Setting, values: Sequence[Document], initial: Document) -> Document:
    """Return a new entry for a list, based on the last entry without its texts.

    An entry that names a folder starts from the defaults, because the settings of another folder
    do not apply to it.

    Args:
        setting: The list.
        values: Existing entries.
        initial: Values taken from other settings.
    """
    fresh: Document = dict(setting.item().model_dump(mode="json")) if setting.item else {}
    if values and not _names_a_folder(setting):
        texts = {inner.path for inner in entries_of(setting) if inner.kind == "text"}
        fresh |= {key: value for key, value in values[-1].items() if key not in texts}
    return with_unique_name(setting, fresh | initial, values)


def _names_a_folder(setting: Setting) -> bool:
    first = next(iter(entries_of(setting)), None)
    return first is not None and first.ui.editor == "folder"


def with_unique_name(setting: Setting, entry: Document, values: Sequence[Document]) -> Document:
    """Return the entry with a name that no other entry has: "<my-word-2>".

    Names are the first texts of entries with a default text; other texts may repeat.
    """
    first = next((inner for inner in entries_of(setting) if inner.kind == "text"), None)
    if first is None or not first.default:
        return entry
    taken = {str(value.get(first.path)).casefold() for value in values}
    return {**entry, first.path: unique_name(str(entry[first.path]), taken)}


def unique_name(text: str, taken: set[str]) -> str:
    """Return the text, numbered if it is taken. taken: case-folded names."""
    if text.casefold() not in taken:
        return text
    match = _NUMBERED.match(text)
    stem, end = (match[1], match[3]) if match else (text, "")
    number = 2
    while f"{stem}-{number}{end}".casefold() in taken:
        number += 1
    return f"{stem}-{number}{end}"


def with_new_entry(
    setting: Setting, values: list[Document], initial: Document
) -> tuple[list[Document], int]:
    """Return the entries with a new one, and its index."""
    if setting.item is Point:
        return _with_point(values)
    return [*values, new_entry(setting, values, initial)], len(values)


def _with_point(values: list[Document]) -> tuple[list[Document], int]:
    """Add a point to a curve: its start, its end, then the middle of the widest gap."""
    places, factors = (
        [number for value in values if isinstance(number := value.get(key), int | float)]
        for key in ("at", "factor")
    )
    if len(places) < len(values) or len(factors) < len(values):  # some numbers are invalid
        return [*values, _point(1.0, 0.0)], len(values)
    if values and places[-1] < 1:
        return [*values, _point(1.0, 0.0)], len(values)
    if not values or places[0] > 0:
        return [_point(0.0, 1.0), *values], 0
    gaps = [end - start for start, end in pairwise(places)]
    index = gaps.index(max(gaps))
    at = round((places[index] + places[index + 1]) / 2, _DIGITS)
    factor = round((factors[index] + factors[index + 1]) / 2, _DIGITS)
    return [*values[: index + 1], _point(at, factor), *values[index + 1 :]], index + 1


def _point(at: float, factor: float) -> Document:
    return Point(at=at, factor=factor).model_dump(mode="json")
