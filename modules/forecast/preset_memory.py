"""Forecasts the memory of the built-in presets: `python -m modules.forecast.preset_memory`.

Only presets whose settings have changed since are forecast again; `--all` forecasts every one.
"""

import json
import sys

from modules.forecast.forecast import Planner, Target
from onetrainer.files.atomic import write_atomic
from onetrainer.json_file import Document, read_json
from onetrainer.presets.find import find_presets
from onetrainer.presets.forecasts import SHIPPED, forecast_config, settings_digest
from onetrainer.presets.presets import load_document
from onetrainer.schedules.amounts import estimated


def peak_bytes(planner: Planner, document: Document) -> int:
    """Return the peak of a preset on an NVIDIA GPU; automatic checkpointing is the most saving."""
    config = estimated(forecast_config(document, source=""))
    return planner.forecast(planner.resolve_checkpointing(config)).peak_bytes


def main() -> None:
    """Write the peaks of all built-in presets."""
    before = {} if "--all" in sys.argv or not SHIPPED.exists() else read_json(SHIPPED)
    after: Document = {}
    with Planner(Target("cuda")) as planner:
        for preset in (preset for preset in find_presets() if preset.origin == "built in"):
            document = load_document(preset.path)
            digest, known = settings_digest(document), before.get(preset.name)
            if known and known["digest"] == digest:
                after[preset.name] = known
            else:
                peak = peak_bytes(planner, document)
                after[preset.name] = {"digest": digest, "peak_bytes": peak}
            write_atomic(SHIPPED, (json.dumps(before | after, indent=1) + "\n").encode())
    write_atomic(SHIPPED, (json.dumps(after, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
