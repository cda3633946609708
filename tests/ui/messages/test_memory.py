"""The texts, colors and fractions of a forecast of memory."""

import re

from onetrainer.errors import UserError
from onetrainer.messages.memory import verdict as terminal_verdict
from onetrainer.run.events import Forecast
from ui.messages.memory import (
    REST,
    colors_of,
    component_title,
    failure_text,
    fix_summary,
    forecast_notes,
    phase_title,
    verdict,
    visible_components,
)
from ui.theme.palette import SERIES_COLORS

GIB = 2**30


def forecast(peak, free):
    return Forecast({"training": {"unet": round(peak * GIB)}}, "training", round(peak * GIB), free)


def test_it_is_shown_whether_it_fits():
    for peak, words, tone in [
        (9.4, "Fits: 9.4 GB of 12.0 GB", "good"),
        (11.5, "Only just: 11.5 GB of 12.0 GB", "warning"),
        (14.2, "Too much: 14.2 GB of 12.0 GB", "danger"),
    ]:
        found = verdict(forecast(peak, 12 * GIB))
        assert (found.text, found.tone) == (words, tone), (peak, words, tone)
        assert found.details == "Peak: training.", (peak, words, tone)


def test_window_and_terminal_tell_the_same_memory_to_the_last_digit_that_is_shown():
    for peak, free in ((0.5, 4), (3.456, 4), (3.96, 4), (7.84, 4), (11.9, 24), (30.04, 24)):
        made = forecast(peak, free * GIB)
        texts = verdict(made).text, terminal_verdict(made)
        shown = [re.findall(r"([\d.]+) (GB|MB)", text)[:2] for text in texts]
        for told, exact in zip(*shown, strict=True):
            both = [float(number) * (1024 if unit == "GB" else 1) for number, unit in (told, exact)]
            # The window shows a tenth of a GB, the terminal a hundredth below ten.
            assert abs(both[0] - both[1]) <= 1024 * (0.1 + 0.01) / 2, (peak, texts)


def test_parts_too_small_to_see_are_reported_in_one():
    parts = {"unet": 900, "a": 5, "optimizer": 90, "b": 5}
    assert visible_components(parts) == [("unet", 900), ("optimizer", 90), (REST, 10)]
    assert visible_components({"unet": 0}) == []
    assert sum(size for _, size in visible_components(parts)) == sum(parts.values())


def test_every_part_has_a_color_of_its_own_as_far_as_there_are_any():
    names = [
        "unet",
        "text_encoders",
        "adapters",
        "vae",
        "new",
        "gradients",
        "optimizer",
        "newer",
        "newest",
    ]
    colors = colors_of([*names, REST])
    gray = len(SERIES_COLORS["dark"]) - 1
    assert len(set(colors.values())) == len(colors) == gray
    assert gray not in colors.values()
    assert REST not in colors


def test_parts_and_phases_begin_a_line_with_a_capital():
    assert [component_title(name) for name in ("unet", "ema", REST)] == [
        "UNet",
        "EMA",
        "Everything else",
    ]
    assert [phase_title(name) for name in ("sampling", "new")] == ["Sampling", "New"]


def test_a_fix_says_what_it_comes_to_and_costs():
    fix = {
        "message": "repeat whole blocks",
        "peak_bytes": 8 * GIB,
        "cost": "a third more time",
        "changes": {"hardware.gradient_checkpointing": "block"},
    }
    found = fix_summary(fix, forecast(14.2, 12 * GIB))
    assert found.text == "Repeat whole blocks"
    assert found.details == "fits · 8.0 GB instead of 14.2 GB · a third more time"
    assert (found.tone, found.changes) == ("good", fix["changes"])


def test_a_fix_fits_where_the_verdict_would_say_so():
    for peak, mark, tone in [
        (10.8, "fits", "good"),
        (11.5, "only just", "warning"),
        (13, "not enough alone", "dim"),
    ]:
        found = fix_summary(
            {"message": "x", "peak_bytes": round(peak * GIB)}, forecast(14.2, 12 * GIB)
        )
        assert (found.details.split(" · ")[0], found.tone) == (mark, tone), (peak, mark, tone)
        after = verdict(forecast(peak, 12 * GIB))
        assert after.tone == {"dim": "danger"}.get(tone, tone), (peak, mark, tone)


def test_what_was_counted_is_shown_where_it_is_not_plain():
    card = Forecast({"training": {"unet": 5}, "sampling": {"unet": 5}}, "training", 5, 9)
    assert forecast_notes(card, device="auto") == ""
    main = Forecast({"training": {"unet": 5, "program": 1}}, "training", 6, 9)
    assert forecast_notes(main, device="auto") == (
        "No GPU was found: the forecast is for host memory. "
        "Samples are not included: there is no prompt."
    )
    assert forecast_notes(main, device="cpu").startswith("The device is the CPU:")
    assert forecast_notes(main, device="mps").startswith("Apple's GPU shares")


def test_a_failure_is_reported_without_the_log():
    failed = UserError("the worker died", "", "The log is /tmp/x:\n  | Traceback")
    assert failure_text(failed) == "The worker died. The log is /tmp/x."
