"""Events and commands as lines of JSON."""

import json
from dataclasses import fields
from typing import cast, get_args

from onetrainer.run.commands import Command
from onetrainer.run.events import Event

_EVENT_TYPES: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
# Names that fields had in events of earlier versions.
_FORMER = {"pictures": "images", "cures": "fixes"}
_KEYS = {kind: frozenset(item.name for item in fields(kind)) for kind in get_args(Event)}


def encode_event(event: Event, *, time: float) -> str:
    """One line, with its newline. time: seconds since the epoch."""
    body = {"type": type(event).__name__, "time": round(time, 3), **vars(event)}
    return json.dumps(body, ensure_ascii=False, allow_nan=True) + "\n"


def decode_event(line: str) -> Event | None:
    """The event of a line; None for a line that is none, or of a kind this version lacks."""
    try:
        body = json.loads(line)
        kind = _EVENT_TYPES[body["type"]]
        known = _KEYS[kind]
        current = {_FORMER.get(key, key): value for key, value in body.items()}
        return cast(Event, kind(**{key: value for key, value in current.items() if key in known}))
    except (ValueError, KeyError, TypeError):
        return None


def encode_command(command: Command) -> str:
    """One line, with its newline."""
    return json.dumps({"command": command.name}) + "\n"


def decode_command(line: str) -> Command | None:
    """The command of a line; None for a line that is none."""
    try:
        name = json.loads(line)["command"]
    except (ValueError, KeyError, TypeError):
        return None
    return Command(name) if name in ("stop", "pause", "save", "sample") else None
