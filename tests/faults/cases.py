"""The runs that faults are planted into, and what must come of them whatever happens."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onetrainer.run.events import Checkpoint, Evaluated, Finished, Progress, Sample
from onetrainer.run.run_folder import RunFolder
from tests import runs

_VALIDATED = {
    "validation": {"every": 2, "split": 0.25},
    "training": {"steps": 6, "batch_size": 1},
    "output": {"save_every": 2},
}
_REWARDED = {
    "kind": "alignprop",
    "rewards": [{"reward": "color"}],
    "prompts": {"text": "a cat\na dog"},
    "rollout": {"steps": 2, "width": 64, "height": 64},
    "evaluation": {"prompts": "a fox", "every": 3, "seeds": 2, "guard": "warn"},
}
CASES: Mapping[str, dict[str, Any]] = {
    "lora-accumulation": {
        **_VALIDATED,
        "training": {"steps": 6, "batch_size": 1, "accumulation": 2},
    },
    "full-ema": {**_VALIDATED, "method": {"kind": "full"}, "ema": {"use": True}},
    "fused-backward-bf16": {
        "method": {"kind": "full", "weights": "bf16"},
        "optimizer": {"kind": "adafactor", "fused_backward": True},
        "training": {"gradient_clipping": 0.0},
        "hardware": {"precision": "bf16"},
        "output": {"save_every": 2},
    },
    "rewards": {"objective": _REWARDED, "data": {"folder": ""}, "sampling": {"prompts": []}},
    "embedding": {
        "method": {"kind": "embedding"},
        "embeddings": {"tokens": [{"token": "zwx", "initial_text": "a red square"}]},
        "output": {"save_every": 2},
    },
}


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: digests of its output files, and its events without times and speeds."""

    files: Mapping[str, str]
    events: tuple[object, ...]


def new_run(config: Path, case: str) -> RunFolder:
    """A run folder of a case; the config is one of `runs.write_project`."""
    document = json.loads(config.read_text())
    own = CASES[case]
    kinds = {key: value for key, value in own.items() if "kind" in value}
    path = config.with_name(f"{case}.json")
    path.write_text(json.dumps(document | kinds))
    rest = {key: value for key, value in own.items() if key not in kinds}
    return runs.new_run(path, **rest)


def outcome(folder: RunFolder) -> Outcome:
    """What a finished run has left."""
    events = tuple(
        (event.step, event.loss, event.lr) if isinstance(event, Progress) else event
        for event in runs.events_of(folder)
        if isinstance(event, Progress | Sample | Checkpoint | Evaluated | Finished)
    )
    files = {
        path.relative_to(folder.output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.output.rglob("*"))
        if path.is_file()
    }
    return Outcome(files, events)


def litter(project: Path) -> list[str]:
    """Unfinished files that a dead worker has left anywhere in the project."""
    return sorted(
        path.relative_to(project).as_posix()
        for path in project.rglob("*")
        if path.name.endswith(".part") or path.name.startswith(".onetrainer-")
    )
