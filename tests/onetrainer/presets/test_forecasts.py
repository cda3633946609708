"""Forecasts of presets: those that are shipped are of the presets as they are; others are kept."""

import json

import pytest

from onetrainer.presets import forecasts
from onetrainer.presets.find import find_presets, locate
from onetrainer.presets.forecasts import PresetForecast, known_forecasts, remember_forecast
from onetrainer.presets.presets import load_document


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
