"""Small runs with real processes, for tests that need one."""

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from modules.evaluation.validation import ImageEvaluation
from onetrainer.metrics.bands import Measurement
from onetrainer.presets.presets import load_document, resolve, with_absolute_paths
from onetrainer.run import client
from onetrainer.run.event_log import EventReader
from onetrainer.run.events import Event
from onetrainer.run.run_folder import RunFolder, create_run
from tests import tiny

DEADLINE = 120.0

SETTINGS: dict[str, Any] = {
    "model": {"path": "base"},
    "data": {"folder": "pictures", "resolution": 64, "captions": {"dropout": 0.2}},
    "method": {"rank": 4, "alpha": 2.0},
    "training": {"steps": 6, "batch_size": 2, "seed": 5},
    "optimizer": {"lr": 0.01},
    "schedule": {"kind": "cosine", "warmup_steps": 2},
    "sampling": {
        "prompts": [{"prompt": "a red square", "width": 64, "height": 64}],
        "every": 2,
        "steps": 2,
    },
    "output": {"folder": "runs", "save_every": 3, "precision": "fp32"},
    "hardware": {"precision": "fp32", "threads": 1},
}


def write_project(folder: Path) -> Path:
    """A tiny base model, four captioned images and a config; returns the config's path."""
    folder.mkdir(parents=True, exist_ok=True)
    tiny.write_folder(folder / "base")
    tiny.write_images(folder / "pictures", ("a red square", "a blue circle", "green", "night"))
    path = folder / "config.json"
    path.write_text(json.dumps(SETTINGS))
    return path


def new_run(config: Path, **changes: dict[str, Any]) -> RunFolder:
    """A run folder of the config, with sections changed: training={"steps": 3}."""
    document = load_document(config)
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    resolved = with_absolute_paths(resolve(document, source=str(config)))
    return create_run(
        Path(resolved.output.folder), name="run", config=resolved.model_dump(mode="json")
    )


def finish(folder: RunFolder) -> int:
    """Works on a run until its worker ends; the exit code."""
    code = client.start(folder).wait(DEADLINE)
    assert code is not None
    return code


def script_validations(monkeypatch: pytest.MonkeyPatch, *losses: float) -> None:
    """Validations give these losses, by step, to which a second noise adds a tenth."""

    def measure(self: ImageEvaluation, step: int, before_each: object) -> None:
        values = [losses[step], losses[step] + 0.1]
        measured = Measurement(step, dict.fromkeys(self.images.names, values))
        if step not in self.files.by_step:
            self.files.add(step, {"sampling": measured})

    monkeypatch.setattr(ImageEvaluation, "measure", measure)


def events_of(folder: RunFolder) -> list[Event]:
    """Every event of a run."""
    return EventReader(folder.events).read().events


def wait_until(condition: Callable[[], bool], timeout: float = DEADLINE) -> None:
    """Poll until the condition holds; fail after the timeout."""
    deadline = monotonic() + timeout
    while not condition():
        assert monotonic() < deadline, "waited too long"
        sleep(0.005)
