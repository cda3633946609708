"""Built-in presets train ten steps as they are, on tiny models of their families."""

import json
import math

import pytest

from modules.jobs.train import train
from onetrainer.presets.find import BUILT_IN
from onetrainer.presets.presets import load_document, value_at
from onetrainer.run.events import Finished, Progress
from tests import runs, table

STEPS = 10
# Rewards, embeddings and sliders have whole runs of their own.
NAMES = sorted(
    path.relative_to(BUILT_IN).with_suffix("").as_posix()
    for path in BUILT_IN.rglob("*.json")
    if not any(word in path.stem for word in ("reward", "embedding", "slider"))
)
ALWAYS = "sd15/lora-validated"


@pytest.mark.parametrize(
    "name", [ALWAYS, *(pytest.param(n, marks=pytest.mark.long) for n in NAMES if n != ALWAYS)]
)
def test_a_preset_trains_ten_steps(tmp_path, name):
    document = load_document(BUILT_IN / f"{name}.json")
    family = value_at(document, "model.family") or "sd15"
    project = table.write_project(tmp_path, family)
    changes = {
        "model": {"path": "base", "family": family},
        "data": {"folder": "pictures", "resolution": 64},
        "training": {"steps": STEPS, "batch_size": 2},
        "sampling": {"every": 0, "at_start": False},
        "output": {"save_every": 0},
        "hardware": {"device": "cpu", "threads": 1},
    }
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    (project / "config.json").write_text(json.dumps(document))
    folder = runs.new_run(project / "config.json")
    assert train(folder) == 0
    events = runs.events_of(folder)
    losses = [event.loss for event in events if isinstance(event, Progress)]
    assert len(losses) == STEPS and all(map(math.isfinite, losses))
    assert isinstance(events[-1], Finished) and events[-1].outputs
