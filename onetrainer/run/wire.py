"""Encoding of events as lines of JSON."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, get_args

from onetrainer.files.own_json import NotOurs, parse_object, typed
from onetrainer.redaction import without_tokens, without_tokens_inside
from onetrainer.run.events import Evaluated, Event

_EVENT_TYPES: dict[str, type[Event]] = {event.__name__: event for event in get_args(Event)}
# Former names in older run folders: of fields, and inside fields.
_FORMER = {"pictures": "images", "cures": "fixes", "words": "message"}
_FORMER_IN_FORECASTS = {"drawing": "sampling", "average": "ema", "words": "message"}
_FORMER_INSIDE: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("phases", "peak_phase", "fixes", "time"), _FORMER_IN_FORECASTS),
    "weights": {"shown": "sampling", "last": "without_ema"},
}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=True)
_NUMBERS = frozenset({int, float, bool, type(None)})
# Before any text of the event. Until the year 5138: what orders and shows times takes these.
_TIME = re.compile(r'"time": (\d{1,11}(?:\.\d{1,9})?)[,}]')
_KEYS = {event: frozenset(item.name for item in fields(event)) for event in get_args(Event)}


@dataclass(frozen=True)
class _EvaluatedImage:
    path: str = ""
    prompt: str = ""
    seed: int = 0
    rewards: dict[str, float] = field(default_factory=dict)


def encode_event(event: Event, *, time: float) -> str:
    """Return an event as one line with its newline. time: Seconds since the epoch."""
    values = vars(event)
    name, time = type(event).__name__, round(time, 3)
    if _NUMBERS.issuperset(map(type, values.values())):
        # Those of every step: written as by the encoder, in a third of its time.
        numbers = "".join([f', "{key}": {_number(value)}' for key, value in values.items()])
        return f'{{"type": "{name}", "time": {time}{numbers}}}\n'
    body = {"type": name, "time": time, **values}
    line = _ENCODER.encode(body)
    if without_tokens(line) != line:
        line = _ENCODER.encode(without_tokens_inside(body))
    return f"{line}\n"


def _number(value: float | bool | None) -> str:
    if value is None or value is True or value is False or not isfinite(value):
        return _ENCODER.encode(value)
    return repr(value)


def decode_event(line: str) -> Event | None:
    """Return the event of a line; None for an invalid line or an unknown event type."""
    try:
        body = parse_object(line, with_nan=True)
        event = _EVENT_TYPES[body["type"]]
        known = _KEYS[event]
        current = {_FORMER.get(key, key): value for key, value in body.items()}
        values = {
            key: _with_current_names(value, _FORMER_INSIDE[key]) if key in _FORMER_INSIDE else value
            for key, value in current.items()
            if key in known
        }
        if event is Evaluated:
            typed(values.get("images", []), list[_EvaluatedImage])
        return typed(values, event)
    except (NotOurs, KeyError, TypeError):
        return None


def event_time(line: str) -> float:
    """Return the time of a line that is an event, in seconds since the epoch; 0 without one."""
    found = _TIME.search(line)
    return float(found[1]) if found else 0.0


def _with_current_names(value: Any, names: Mapping[str, str]) -> Any:
    """Return JSON with current names in place of former ones: keys and texts at any depth."""
    match value:
        case dict():
            return {
                names.get(key, key): _with_current_names(inner, names)
                for key, inner in value.items()
            }
        case list():
            return [_with_current_names(inner, names) for inner in value]
        case str():
            return names.get(value, value)
    return value
