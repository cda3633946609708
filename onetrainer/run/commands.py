"""Commands to a running worker, which obeys them between two steps, as lines of JSON.

stop: save a checkpoint and the model file, then end. pause: save a checkpoint, then end. discard:
end without saving anything. save: save a checkpoint and the model file, then continue. sample:
generate the samples now, or the images of a request, see `sample_request`. cancel: end the images
of a request.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from onetrainer.files.own_json import NotOurs, parse_object, typed

Leaving = Literal["pause", "stop", "discard"]
"""Commands after which the run ends; it can be resumed from its newest checkpoint."""
LEAVING: tuple[Leaving, ...] = get_args(Leaving)
"""Of several that were sent, the last of these counts."""
CommandName = Literal[Leaving, "save", "sample", "cancel"]
SILENCE = 30.0
"""Seconds without an event after which a worker that is to end may be killed."""


class ImageRequest(NamedTuple):
    """Images that a person asks a running worker for.

    id: By which events name the request. request: A `SampleRequest` as JSON.
    """

    id: str
    request: Mapping[str, Any]


class Command(NamedTuple):
    """A command.

    images: Those of "sample", None for the run's own samples. canceled: The id of the request that
    "cancel" ends.
    """

    name: CommandName
    images: ImageRequest | None = None
    canceled: str = ""


class _Sent(NamedTuple):
    """A line of the file."""

    command: CommandName
    id: str = ""
    request: dict[str, Any] | None = None


def encode_command(
    name: CommandName, images: ImageRequest | None = None, *, canceled: str = ""
) -> str:
    """Return a command as one line with its newline."""
    body: dict[str, Any] = {"command": name}
    if images is not None:
        body |= {"id": images.id, "request": images.request}
    if canceled:
        body["id"] = canceled
    return json.dumps(body) + "\n"


def decode_command(line: str) -> Command | None:
    """Return the command of a line; None for an invalid line."""
    try:
        body = parse_object(line)
        sent = typed({key: body[key] for key in _Sent._fields if key in body}, _Sent)
    except NotOurs:
        return None
    if sent.command == "cancel":
        return Command(sent.command, canceled=sent.id)
    images = ImageRequest(sent.id, sent.request) if sent.request is not None else None
    return Command(sent.command, images if sent.command == "sample" else None)
