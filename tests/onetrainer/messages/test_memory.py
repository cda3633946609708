"""The message of a forecast of memory."""

from dataclasses import replace

from onetrainer.messages.memory import (
    GB,
    checkpointing_label,
    component_label,
    fits,
    fix_lines,
    fix_section,
    forecast_lines,
    format_memory,
    largest_parts,
    phase_label,
    setting_value,
    verdict,
)
from onetrainer.run.events import Forecast
from tests.each import each

PHASES = {
    "caching": {"vae": GB, "activations": 2 * GB},
    "training": {"unet": 4 * GB, "optimizer": GB // 2, "activations": 5 * GB},
}
PEAK = round(9.5 * GB)
FIXES = [
    {
        "changes": {"hardware.gradient_checkpointing": "block", "training.accumulation": 2},
        "message": "repeat whole blocks",
        "cost": "a third more time",
        "peak_bytes": 5 * GB,
    },
    {
        "changes": {"hardware.vae_tiling": True, "hardware.offload_layers": 0.5},
        "message": "half of the layers",
        "cost": "twice the time",
        "peak_bytes": 9 * GB,
    },
]


def forecast(available=0.0, fixes=()):
    return Forecast(PHASES, "training", PEAK, round(available * GB), list(fixes))


@each(
    ("size", "words"),
    [
        (12 * GB, "12.0 GB"),
        (round(9.876 * GB), "9.88 GB"),
        (GB // 2, "0.50 GB"),
        (50 << 20, "50 MB"),
        (0, "0 MB"),
    ],
)
def test_amounts_are_counted_as_on_a_gpus_box(size, words):
    assert format_memory(size) == words


def test_the_verdict_shows_whether_it_surely_fits_and_when_it_is_highest():
    for free, words in (
        (24, "It fits: 9.50 GB of 24.0 GB free"),
        (10, "It barely fits: 9.50 GB of 10.0 GB"),
        (8, "It does not fit: it needs 9.50 GB, but 8.00 GB are free, 1.50 GB too little"),
        (0, "It needs 9.50 GB"),
    ):
        assert verdict(forecast(free)).startswith(words)
        assert "the peak is in training" in verdict(forecast(free))
    assert fits(90, 100)
    assert not fits(91, 100)


def test_the_table_has_a_row_for_each_part_and_sums():
    lines = forecast_lines(forecast(24))
    rows = {line.split("  ")[0].strip(): line.split()[-2:] for line in lines[2:-2]}
    assert rows[""] == ["caching", "training"]
    assert rows["UNet"] == ["-", "4.00"]
    assert rows["activations"] == ["2.00", "5.00"]
    assert rows["total"] == ["3.00", "9.50"]
    assert lines[-1] == verdict(forecast(24))
    noted = replace(forecast(24), notes=["One.", "Two."])
    assert forecast_lines(noted) == [*lines, "One.", "Two."]


def test_fixes_are_reported_with_the_settings_to_type():
    first, settings, second, others = fix_lines(FIXES, available=10 * GB)
    assert first.split()[:3] == ["fits", "5.00", "GB"]
    assert first.endswith("repeat whole blocks (a third more time)")
    assert settings.split() == [
        "--set",
        "hardware.gradient_checkpointing=block",
        "--set",
        "training.accumulation=2",
    ]
    assert second.split()[:3] == ["fits", "9.00", "GB"]
    assert "hardware.vae_tiling=true" in others
    assert "hardware.offload_layers=0.5" in others
    assert fix_lines(FIXES, available=round(9.5 * GB))[2].startswith("  just")
    assert fix_lines(FIXES, available=GB)[0].split()[0] == "5.00"


def test_parts_and_phases_that_are_not_known_are_called_by_their_names():
    assert (component_label("unet"), component_label("new_part")) == ("UNet", "new part")
    assert checkpointing_label("block") == "full"
    assert (phase_label("sampling"), phase_label("else")) == ("sampling", "else")
    assert largest_parts(PHASES["training"], 2) == "activations 5.00 GB, UNet 4.00 GB"


def test_fixes_have_a_heading_that_says_whether_they_are_enough():
    assert "No known setting" in fix_section(forecast(8))[1]
    assert fix_section(forecast(8, FIXES))[3:] == fix_lines(FIXES, 8 * GB)
    assert fix_section(forecast(8, FIXES))[1].startswith("Settings that lower it")
    assert fix_section(forecast(4, FIXES))[1] == "No setting makes it fit; the closest first:"


def test_values_are_as_a_config_file_has_them():
    values = [None, True, 0.0, 0.5, 2, "adafactor"]
    assert [setting_value(value) for value in values] == [
        "null",
        "true",
        "0",
        "0.5",
        "2",
        "adafactor",
    ]
