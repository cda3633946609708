"""Small runs that validate, for the tests of validation."""

import json

import pytest

from modules.jobs.train import train
from modules.training.validate_task import ValidateTask
from onetrainer.presets.presets import resolve
from onetrainer.run.events import Progress
from onetrainer.run.run_folder import create_run
from tests import runs, table, tiny

STEPS = 4
DROPOUT = {"dropout": 0.3, "rank_dropout": 0.2, "module_dropout": 0.1}
SCHEDULE_FREE = {"kind": "schedulefree_adamw", "lr": 1e-2}
CASES = {
    "lora": {"method": {"kind": "lora", "rank": 2, **DROPOUT, **tiny.encoders()}},
    "lora-ema": {
        "method": {"kind": "lora", "rank": 2, **DROPOUT, **tiny.encoders()},
        "ema": {"use": True},
        "hardware": {"precision": "bf16"},
    },
    "full-schedule-free": {
        "method": {"kind": "full", "weights": "fp32", **tiny.encoders()},
        "optimizer": SCHEDULE_FREE,
    },
    "full-bf16": {
        "method": {"kind": "full", "weights": "bf16", "stochastic_rounding": True},
        "optimizer": {"kind": "adamw", "lr": 1e-3, "fused_backward": True},
        "training": {"gradient_clipping": 0.0},
        "ema": {"use": True, "device": "host"},
        "hardware": {"precision": "bf16"},
    },
    "embedding": {**table.METHODS["embedding"], "ema": {"use": True}},
    "output-embedding": {**table.METHODS["output-embedding"], "hardware": {"precision": "bf16"}},
    "vae": table.METHODS["vae"],
}


# A second run of theirs, without samples, measures the same to the last bit.
MEASURED_TWICE = ("lora", "full-bf16", "vae")


def cases(*always):
    """The cases; those that are not named belong to the long tests."""
    marks = {case: () if case in always else pytest.mark.long for case in CASES}
    return pytest.mark.parametrize("case", [pytest.param(c, marks=m) for c, m in marks.items()])


def new_run(project, **changes):
    document = {
        "model": {"path": str(project / "base")},
        "data": {"folder": str(project / "pictures"), "resolution": 64},
        "training": {"steps": STEPS, "batch_size": 2, "seed": 5},
        "optimizer": {"lr": 1e-2},
        "sampling": {"every": 0, "at_start": False, "at_end": False, "steps": 2},
        "output": {"name": "made", "save_every": 0, "precision": "fp32"},
        "hardware": {"precision": "fp32", "threads": 1},
    }
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    config = resolve(document, source="").model_dump(mode="json")
    return create_run(project / "runs", name="run", config=config)


def validated(project, **changes):
    """A run that validates after every step, with pictures of its own."""
    section = {"use": True, "folder": str(project / "held"), "every": 1, "timesteps": 2}
    changes["validation"] = section | changes.get("validation", {})
    changes["data"] = {"include_subfolders": True} | changes.get("data", {})
    return new_run(project, **changes)


def done(folder):
    assert train(folder) == 0
    return folder


def told(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def losses(folder):
    return [(event.step, event.loss) for event in told(folder, Progress)]


def steps_of(folder):
    return [number for number, _ in folder.complete_checkpoints()]


def change(folder, section, **values):
    document = json.loads(folder.config.read_text())
    document[section] |= values
    folder.config.write_text(json.dumps(document))


def scripted(monkeypatch, *per_validation):
    """Validations give these losses one after the other, by step, instead of measuring."""

    def measured(self, step):
        loss = per_validation[step]
        return {"shown": {name: [loss, loss + 0.1] for name in self.images.names}}

    monkeypatch.setattr(ValidateTask, "_measure", measured)
