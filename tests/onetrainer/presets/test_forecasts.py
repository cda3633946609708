"""Forecasts of presets: those that are shipped are of the presets as they are; others are kept."""

import json

import pytest

from onetrainer.presets import forecasts
from onetrainer.presets.find import find_presets, locate
from onetrainer.presets.forecasts import (
    PresetForecast,
    known_forecasts,
    remember_forecast,
    remember_speed,
)
from onetrainer.presets.presets import load_document

WITHOUT_UNET = ["sd15/vae-decoder", "sd2/vae-decoder"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_the_shipped_forecasts_are_of_all_built_in_presets_as_they_are_now():
    shipped = json.loads(forecasts.SHIPPED.read_text())
    digests = {
        preset.name: forecasts.settings_digest(load_document(preset.path))
        for preset in find_presets()
        if preset.origin == "built in"
    }
    # If not: make forecasts
    assert {name: entry["digest"] for name, entry in shipped.items()} == digests
    assert [name for name, entry in shipped.items() if not entry["work"]] == WITHOUT_UNET


def test_a_forecast_made_here_wins_until_another_device_is_seen(home):
    digest = forecasts.settings_digest(load_document(locate("sdxl/lora")))
    shipped = known_forecasts()[digest]
    assert (shipped.device, shipped.seconds) == ("", 0)
    old, new = PresetForecast(7, 1.5, "old card"), PresetForecast(8, 0.5, "new card")
    remember_forecast(digest, old)
    assert known_forecasts()[digest] == old
    remember_forecast("other", new)
    assert (known_forecasts()[digest], known_forecasts()["other"]) == (shipped, new)
    remember_forecast(digest, old)
    assert known_forecasts()[digest] == old


def test_the_time_of_a_step_of_shipped_presets_follows_from_the_speed_of_this_computer(home):
    flops = {f"{kind} bfloat16": 1e12 for kind in ("product", "convolution", "attention")}
    fast = {"flops": flops, "bytes_per_second": 1e12, "call_seconds": 1e-6}
    remember_speed("card", fast)
    known = known_forecasts()
    one, two = (
        known[forecasts.settings_digest(load_document(locate(name)))]
        for name in ("sd15/lora", "sdxl/lora")
    )
    assert (one.device, one.timed_on) == ("", "card")
    # A forward and a backward pass of 512 x 512 px are some 2 x 10^12 operations, and as many
    # again with checkpointing; SDXL at 1024 px has about 7 times as many (its paper: 5.98 TFLOPs).
    assert 0.8 < one.seconds < 5 < two.seconds < 30
    half = {key: value / 2 for key, value in flops.items()}
    remember_speed("card", fast | {"flops": half})  # while something else computed on it
    assert forecasts.known_speed()[1].flops == flops
    remember_speed("slow", {"flops": half, "bytes_per_second": 5e11, "call_seconds": 2e-6})
    slower = next(each for each in known_forecasts().values() if each.timed_on)
    assert slower.seconds == pytest.approx(2 * next(iter(known.values())).seconds)
    remember_speed("other", fast | {"flops": {"product float32": 1.0}})  # of no preset's format
    assert forecasts.known_speed()[0] == "slow"
    for text in ("{", "{}", '{"device": "card", "speed": 1}'):
        forecasts._speed_file().write_text(text)
        assert known_forecasts()[next(iter(known))].seconds == 0, text


def test_a_damaged_file_of_forecasts_counts_as_none(home):
    before = known_forecasts()
    remember_forecast("a", PresetForecast(1, 1.0, "card"))
    for text in ("{", '{"a": 5}', '{"a": {"peak_bytes": "x"}}', '{"a": {"seconds": []}}'):
        forecasts._own().write_text(text)
        assert known_forecasts() == before, text


def test_the_config_to_forecast_has_a_sample_as_large_as_the_images():
    document = load_document(locate("sdxl/lora"))
    (prompt,) = forecasts.forecast_config(document, source="").sampling.prompts
    assert (prompt.width, prompt.height) == (1024, 1024)
    slider = load_document(locate("sdxl/slider"))
    asked = slider.get("sampling", {}).get("prompts", [])
    got = forecasts.forecast_config(slider, source="").sampling.prompts
    assert len(got) == max(1, len(asked))
