"""Forecasts what the built-in presets need: `python -m modules.forecast.preset_memory`.

Peaks of memory, and what a step computes, whose time follows from the speed of any device.

Only presets whose settings have changed since are forecast again; `--all` forecasts every one.
"""

import json
import sys

from modules.forecast.forecast import Planner, Target
from modules.forecast.step_time import step_work
from onetrainer.config.train import TrainConfig
from onetrainer.files.atomic import write_atomic
from onetrainer.json_file import Document, read_json
from onetrainer.presets.find import find_presets
from onetrainer.presets.forecasts import SHIPPED, forecast_config, settings_digest
from onetrainer.presets.presets import load_document
from onetrainer.presets.step_work import encode_work
from onetrainer.schedules.amounts import estimated


def peak_bytes(planner: Planner, document: Document) -> int:
    """Return the peak of a preset on an NVIDIA GPU; automatic checkpointing is the most saving."""
    return planner.forecast(_resolved(planner, document)).peak_bytes


def work_of_a_step(planner: Planner, document: Document) -> str:
    """Return what a step of the same computes, as `encode_work` writes it."""
    with planner.stage(_resolved(planner, document)) as stage:
        return encode_work(step_work(stage))


def _resolved(planner: Planner, document: Document) -> TrainConfig:
    config = estimated(forecast_config(document, source=""))
    return planner.resolve_checkpointing(config)


def main() -> None:
    """Write the needs of all built-in presets."""
    before = {} if "--all" in sys.argv or not SHIPPED.exists() else read_json(SHIPPED)
    after: Document = {}
    with Planner(Target("cuda")) as planner:
        for preset in (preset for preset in find_presets() if preset.origin == "built in"):
            document = load_document(preset.path)
            digest, known = settings_digest(document), before.get(preset.name)
            if not known or known["digest"] != digest:
                known = {"digest": digest, "peak_bytes": peak_bytes(planner, document)}
            if "work" not in known:
                known["work"] = work_of_a_step(planner, document)
            after[preset.name] = known
            write_atomic(SHIPPED, (json.dumps(before | after, indent=1) + "\n").encode())
    write_atomic(SHIPPED, (json.dumps(after, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
