"""The rule that files of run folders, which anybody may have made, are opened in one place."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from tests.rules import Source

OPENS = ("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "rmtree")
ROOMS = ("onetrainer/run/", "modules/broken_steps/", "modules/training/", "modules/world/")
OPENS_ITSELF: Mapping[str, str] = {
    "onetrainer/run/device_owner.py": "the locks are in this user's own folder",
    "onetrainer/run/event_log.py": "one file is the system's, which keeps nothing",
    "onetrainer/run/oom_kills.py": "one file is the system's",
    "onetrainer/run/fork.py": "it writes into the folder that it has just made",
    "modules/training/checkpoints.py": "the folder was looked through, and the files have digests",
    "modules/training/sample_task.py": "the image is of this run, whose folder was looked through",
    "modules/training/tensorboard.py": "the image is of this run, whose folder was looked through",
}
"""Files that may, with the reason."""


def opening_violations(sources: Iterable[Source]) -> Iterator[str]:
    """What is in a run's folder is opened and deleted by `onetrainer/files/inside.py`."""
    for source in sources:
        if not source.path.startswith(ROOMS):
            continue
        found = [node.lineno for node in source.nodes if _opens(node)]
        if source.path not in OPENS_ITSELF:
            for line in found:
                yield f"{source.path}:{line}: open it by onetrainer/files/inside.py"
        elif not found:
            yield f"{source.path}: it opens nothing itself and needs no exception"


def _opens(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in OPENS
    return False
