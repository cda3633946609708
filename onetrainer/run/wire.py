"""Encoding of events as lines of JSON."""

import json
from dataclasses import fields
from typing import cast, get_args

from onetrainer.run.events import Event

_EVENT_TYPES: dict[str, type] = {event.__name__: event for event in get_args(Event)}
# Former names of event fields, by which older run folders know them.
_FORMER = {"pictures": "images", "cures": "fixes"}
_KEYS = {event: frozenset(item.name for item in fields(event)) for event in get_args(Event)}


def encode_event(event: Event, *, time: float) -> str:
    """Return an event as one line with its newline. time: Seconds since the epoch."""
    body = {"type": type(event).__name__, "time": round(time, 3), **vars(event)}
    return json.dumps(body, ensure_ascii=False, allow_nan=True) + "\n"


def decode_event(line: str) -> Event | None:
    """Return the event of a line; None for an invalid line or an unknown event type."""
    try:
        body = json.loads(line)
        event = _EVENT_TYPES[body["type"]]
        known = _KEYS[event]
        current = {_FORMER.get(key, key): value for key, value in body.items()}
        return cast(Event, event(**{key: value for key, value in current.items() if key in known}))
    except (ValueError, KeyError, TypeError):
        return None
