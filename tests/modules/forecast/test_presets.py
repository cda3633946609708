"""Presets fit by their forecasts into the GPUs that their descriptions name."""

import re

import pytest

from onetrainer.presets.find import BUILT_IN, find_presets
from onetrainer.presets.presets import load_document, resolve
from tests.forecasts import forecast

# Those of docs/memory.md were forecast when it was written, and each takes ten seconds.
NAMES = r"inpainting|masked|validated|sdxl/lora-(character|style|object)|v-prediction"
PRESETS = [preset for preset in find_presets() if preset.path.is_relative_to(BUILT_IN)]
SIZED = [preset for preset in PRESETS if re.search(NAMES, preset.name)]
DESKTOP = 0.7
"""GB that a desktop and a driver take of a GPU of 8 GB."""


@pytest.mark.long
@pytest.mark.parametrize("preset", SIZED, ids=lambda preset: preset.name)
def test_a_preset_fits_the_gpu_of_its_description(preset):
    (gb, *_) = re.findall(r"(\d+) (?:to \d+ )?GB", preset.description)
    document = load_document(preset.path)
    side = document.get("data", {}).get("resolution", 512)
    prompts = [{"prompt": "a cat", "width": side, "height": side}]
    document["sampling"] = {**document["sampling"], "prompts": prompts}
    peak = forecast(resolve(document, source=preset.name)).peak_bytes
    assert peak <= (int(gb) - DESKTOP) * 2**30
