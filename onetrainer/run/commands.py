"""Commands to a running worker, which obeys them between two steps, as lines of JSON.

stop: save a checkpoint and the model file, then end. pause: save a checkpoint, then end. discard:
end without saving anything. save: save a checkpoint and the model file, then continue. sample:
generate the samples now.
"""

import json
from typing import Literal, get_args

Leaving = Literal["pause", "stop", "discard"]
"""Commands after which the run ends; it can be resumed from its newest checkpoint."""
LEAVING: tuple[Leaving, ...] = get_args(Leaving)
"""Of several that were sent, the last of these counts."""
CommandName = Literal[Leaving, "save", "sample"]


def encode_command(name: CommandName) -> str:
    """Return a command as one line with its newline."""
    return json.dumps({"command": name}) + "\n"


def decode_command(line: str) -> CommandName | None:
    """Return the command of a line; None for an invalid line."""
    try:
        name: CommandName = json.loads(line)["command"]
    except (ValueError, KeyError, TypeError):
        return None
    return name if name in get_args(CommandName) else None
