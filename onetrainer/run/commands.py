"""Commands to a running worker, which obeys them between two steps, as lines of JSON.

stop: save a checkpoint and the model file, then end. pause: save a checkpoint, then end. discard:
end without saving anything. save: save a checkpoint and the model file, then continue. sample:
generate the samples now, or the images of a request, see `sample_request`. cancel: end the images
of a request.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

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
        body = json.loads(line)
        name: CommandName = body["command"]
        request = body.get("request")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if name not in get_args(CommandName):
        return None
    request_id = str(body.get("id", ""))
    if name == "cancel":
        return Command(name, canceled=request_id)
    images = ImageRequest(request_id, request) if isinstance(request, dict) else None
    return Command(name, images if name == "sample" else None)
