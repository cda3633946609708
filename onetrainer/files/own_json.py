"""Our own JSON files and lines: read with limits and types, as a stranger may have written them.

A file of another form never ends what reads it: what is sound in it counts, the rest falls back to
what a missing file means, and that is said once.
"""

import json
import re
from collections.abc import Hashable, Iterator, Sequence
from functools import cache, lru_cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from onetrainer.files.inside import open_ordinary, read_inside
from onetrainer.redaction import without_tokens

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
Place = tuple[int | str, ...]
"""The keys and numbers that lead to a part of a value."""

MAX_BYTES = 64 << 20
"""Size of a file; the largest that is written, the losses of 100,000 images, has 20 MB."""
MAX_DEPTH = 50
"""Levels of a value: what walks it calls itself."""
_MAX_DIGITS = 20  # of an integer of 64 bits with its sign; no database holds more
_MAX_SAID = 1000  # messages that are remembered
_MAX_WRONG = 100
"""Wrong entries that are left out one by one: of a file with more nothing counts."""
_ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_UNUSABLE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
"""Characters that no path and no file can hold; the others of that range stand for bytes of paths
of another encoding."""


class NotOurs(ValueError):
    """A text is not what this program writes; the message continues "FILE …".

    places: Of what is of another type than was asked for.
    """

    def __init__(self, what: str, places: Sequence[Place] = ()) -> None:
        super().__init__(what)
        self.places = places


class DuplicateKey(NotOurs):
    """An object has a key twice."""


def parse_json(content: bytes | str, *, with_nan: bool = False) -> Any:  # noqa: ANN401 # JSON
    """Return the value of a JSON text; with a byte order mark or without.

    with_nan: Whether NaN and Infinity, which Python writes, are numbers.

    Raises:
        NotOurs: It is no JSON, too large or too deep, has a key twice, a number that is no finite
            one or is too long for a database, or characters that no file can hold.
    """
    value, text = _parsed(content, _WITH_NAN if with_nan else _DECODER)
    if _ESCAPED.search(text) and any(True for _ in _unusable(value)):
        raise NotOurs("has characters that no file can hold")
    return value


def _parsed(content: bytes | str, decoder: json.JSONDecoder) -> tuple[Any, str]:
    if len(content) > MAX_BYTES:
        raise NotOurs(f"has more than {MAX_BYTES >> 20} MB")
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        value = decoder.decode(text)
    except UnicodeDecodeError as error:
        raise NotOurs("is no UTF-8 text") from error
    except RecursionError as error:
        raise NotOurs("is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise NotOurs(f"is no JSON (line {error.lineno}, column {error.colno})") from error
    if text.count("[") + text.count("{") > MAX_DEPTH and is_deep(value):
        raise NotOurs("is nested too deeply")
    return value, text


def parse_object(content: bytes | str, *, with_nan: bool = False) -> dict[str, Any]:
    """Return the object of a JSON text; see `parse_json`. Raises NotOurs."""
    value = parse_json(content, with_nan=with_nan)
    if not isinstance(value, dict):
        raise NotOurs("holds no object in { }")
    return value


def typed(value: object, kind: type[T]) -> T:
    """Return the value of JSON as a type: a dataclass, a tuple of them and the like.

    Raises NotOurs if it is of another one.
    """
    try:
        return _adapter(kind).validate_python(value)
    except ValueError as error:  # of pydantic, with every place
        raise NotOurs(*_reason(error)) from error


def read_json_as(content: bytes, kind: type[T], *, with_nan: bool = False) -> T:
    """Return a whole file's content as a type, of which nothing may be wrong.

    By the rules of JSON: "3" is no number. Raises NotOurs.
    """
    value = parse_json(content, with_nan=with_nan)
    try:
        return _adapter(kind).validate_json(json.dumps(value), strict=True)
    except ValueError as error:
        raise NotOurs(*_reason(error)) from error


def read_own(path: Path, kind: type[T], default: T, *, lost: str, is_of_run: bool = False) -> T:
    """Return what is sound in a file; the default where there is none.

    What is of another type is left out: an entry of a list, the value of a key, and what cannot be
    without it.

    lost: What becomes of the rest, as in "its stars are ignored"; said once. is_of_run: Whether it
    is in a run's folder, which may come from anybody, so that it may be no link.
    """
    try:
        if is_of_run:
            content = read_inside(path, most=MAX_BYTES)
        else:
            with open_ordinary(path) as file:
                content = file.read(MAX_BYTES + 1)
        return _sound(_parsed(content, _DECODER)[0], kind, path, lost)
    except FileNotFoundError:
        return default
    except OSError as error:
        say_once(f"{path} cannot be read ({(error.strerror or str(error)).lower()}): {lost}")
    except NotOurs as error:
        say_once(f"{path} {error}: {lost}")
    return default


def set_aside(path: Path, kind: type[Any]) -> None:
    """Rename a file, before it is replaced, if something in it cannot be read. Raises OSError."""
    try:
        with open_ordinary(path) as file:
            typed(parse_json(file.read(MAX_BYTES + 1)), kind)
    except FileNotFoundError:
        return
    except NotOurs:
        path.replace(path.with_name(f"{path.name}.damaged"))
        say_once(f"{path} was damaged: it is kept as {path.name}.damaged")


@lru_cache(maxsize=_MAX_SAID)
def say_once(text: str) -> None:
    """Report that something was left out: in a terminal, in a worker's log, in the window."""
    import logging

    logging.getLogger(__name__).warning("%s", without_tokens(text))


def _sound(value: Any, kind: type[T], path: Path, lost: str) -> T:  # noqa: ANN401 # JSON
    """Return what is sound of a value. Raises NotOurs if nothing is."""
    first = ""
    while True:
        try:
            if unusable := [*_unusable(value)]:
                raise NotOurs("has characters that no file can hold", unusable)
            found = typed(value, kind)
        except NotOurs as error:
            first = first or str(error)
            places = {_last_there(value, each) for each in error.places}
            if not places or () in places:
                raise
            for place in sorted(places, key=_by_place, reverse=True):  # of a list the last first
                del _at(value, place[:-1])[place[-1]]
        else:
            if first:
                say_once(f"{path} {first}: {lost}")
            return found


def _reason(error: ValueError) -> tuple[str, list[Place]]:
    """Return what is wrong by pydantic's error, and all places of that."""
    from pydantic import ValidationError

    assert isinstance(error, ValidationError), error
    if error.error_count() > _MAX_WRONG:
        return f"is not what this program writes, in {error.error_count():,} places", []
    places = [each["loc"] for each in error.errors(include_url=False, include_input=False)]
    where = ".".join(map(str, places[0]))
    return f"is not what this program writes ({where or 'as a whole'})", places


def _last_there(value: Any, place: Place) -> Place:  # noqa: ANN401 # JSON
    """Return the part of a place that there is: a missing key's is what it is missing in."""
    for count, part in enumerate(place):
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value[str(part)]
        else:
            return place[:count]
    return place


def _at(value: Any, place: Place) -> Any:  # noqa: ANN401 # JSON
    for part in place:
        value = value[part]
    return value


def _by_place(place: Place) -> list[tuple[str, int]]:
    return [(part, 0) if isinstance(part, str) else ("", part) for part in place]


def _adapter(kind: type[T]) -> "TypeAdapter[T]":
    return _cached_adapter(cast(Hashable, kind))


@cache  # building one takes half a millisecond
def _cached_adapter(kind: Any) -> "TypeAdapter[Any]":  # noqa: ANN401 # any type
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _unusable(value: object, place: Place = ()) -> Iterator[Place]:
    """Yield the places of texts with characters that no file can hold."""
    match value:
        case str() if _UNUSABLE.search(value):
            yield place
        case list():
            for at, inner in enumerate(value):
                yield from _unusable(inner, (*place, at))
        case dict():
            for key, inner in value.items():
                if _UNUSABLE.search(key):
                    yield (*place, key)
                else:
                    yield from _unusable(inner, (*place, key))


def is_deep(value: object) -> bool:
    """Return whether a value has more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object for a decoder of JSON. Raises DuplicateKey."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise DuplicateKey("has a key twice")
    return value


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS or not -(1 << 63) <= (number := int(text)) < 1 << 63:
        raise NotOurs("has a number that is too long")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise NotOurs("has a number that is not finite")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_int=_integer, parse_float=_finite, parse_constant=_finite
)
_WITH_NAN = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_int=_integer, parse_float=_finite, parse_constant=float
)
