"""Presets fit by their forecasts into the GPUs that their descriptions name."""

import json
import re

import pytest

from modules.forecast.forecast import Planner
from modules.forecast.preset_memory import peak_bytes, work_of_a_step
from onetrainer.presets.find import BUILT_IN, find_presets, locate
from onetrainer.presets.forecasts import SHIPPED
from onetrainer.presets.presets import load_document, resolve
from onetrainer.presets.step_work import decode_work
from tests.forecasts import ON_GPU, forecast

# Those of docs/memory.md were forecast when it was written, and each takes ten seconds.
NAMES = r"inpainting|masked|validated|sdxl/lora-(character|style|object)|v-prediction"
PRESETS = [preset for preset in find_presets() if preset.path.is_relative_to(BUILT_IN)]
SIZED = [preset for preset in PRESETS if re.search(NAMES, preset.name)]
DESKTOP = 0.7
"""GB that a desktop and a driver take of a GPU of 8 GB."""


def test_shipped_forecasts_are_what_is_forecast_now():
    check_shipped(("sd15/lora", "sd15/embedding"))


@pytest.mark.long
def test_all_shipped_forecasts_are_what_is_forecast_now():
    check_shipped([preset.name for preset in PRESETS])


def check_shipped(names):
    """The counts are whole bytes; a release of torch may count a buffer more, within a percent."""
    shipped = json.loads(SHIPPED.read_text())
    with Planner(ON_GPU) as planner:
        for name in names:
            document, known = load_document(locate(name)), shipped[name]
            peak = peak_bytes(planner, document)
            assert peak == pytest.approx(known["peak_bytes"], rel=0.01), name
            now, then = (
                flops(decode_work(text))
                for text in (work_of_a_step(planner, document), known["work"])
            )
            assert now == pytest.approx(then, rel=0.01), name


def flops(work):
    return sum(one.flops * count for one, count in work.items())


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
