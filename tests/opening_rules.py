"""The rule that files of runs, caches and models, which are anybody's, are opened in one place."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from tests.rules import Source

OPENS = ("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "rmtree")
ROOMS = (
    *("onetrainer/run/", "modules/broken_steps/", "modules/training/", "modules/world/"),
    *("onetrainer/cache/", "onetrainer/captioning/", "onetrainer/model_files/"),
    *("modules/captioning/", "modules/formats/files/", "modules/formats/models/"),
)
OPENS_ITSELF: Mapping[str, str] = {
    "onetrainer/run/device_owner.py": "the locks are in this user's own folder",
    "onetrainer/run/event_log.py": "one file is the system's, which keeps nothing",
    "onetrainer/run/oom_kills.py": "one file is the system's",
    "onetrainer/cache/format.py": "it writes a file of a new name",
    "onetrainer/captioning/masks.py": "the image is one of those that were listed",
    "onetrainer/captioning/own_files.py": "the notes are in this user's own folder",
    "onetrainer/captioning/results.py": "it opens to append, in the folder of its own job",
    "onetrainer/captioning/writing.py": "the notes are in this user's own folder",
    "onetrainer/model_files/adapters.py": "the table of its tensors was read from it",
    "onetrainer/model_files/sizes.py": "the configs are this program's",
    "onetrainer/model_files/wholeness.py": "the configs are this program's",
    "modules/formats/files/tensor_source.py": "the table of its tensors was read from it",
    "modules/formats/models/stored_configs.py": "it writes into a folder that it has just made",
    "onetrainer/run/fork.py": "it writes into the folder that it has just made",
    "modules/training/checkpoints.py": "the folder was looked through, and the files have digests",
    "modules/training/sample_task.py": "the image is of this run, whose folder was looked through",
    "modules/training/tensorboard.py": "the image is of this run, whose folder was looked through",
}
"""Files that may, with the reason."""


def opening_violations(sources: Iterable[Source]) -> Iterator[str]:
    """What may be a pipe or a link is opened and deleted by `onetrainer/files/inside.py`."""
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
