"""The message of a forecast of time."""

from onetrainer.messages.durations import (
    format_duration,
    format_passes,
    format_step_time,
    time_lines,
)
from onetrainer.messages.formatting import some
from tests.each import each


@each(
    ("seconds", "words"),
    [
        (0.0213, "0.02 s"),
        (1, "1 s"),
        (4.26, "4.3 s"),
        (43.7, "44 s"),
        (119.9, "120 s"),
        (200, "3.3 min"),
        (3000, "50 min"),
        (7200, "2 h"),
        (100_000, "28 h"),
        (400_000, "5 days"),
    ],
)
def test_times_have_as_many_digits_as_can_be_known(seconds, words):
    assert format_duration(seconds) == words


def test_a_step_and_the_whole_are_reported_with_where():
    message = format_step_time(step=40, run=1200, where="on this processor")
    assert message == "about 40 s a step, 20 min in all (on this processor)"


def test_a_terminal_shows_what_passes_are_for():
    parts = {"sampling": 18.0, "trained": 4.5, "backward": 9.0}
    lines = time_lines({"message": "about 40 s", "unet_calls": 31.5, "parts": parts})
    assert lines[:2] == ["Time: about 40 s.", "A step is as much work as 31.5 passes of the UNet:"]
    assert [line.split()[0] for line in lines[2:]] == ["18", "4.5", "9"]


def test_ordinary_training_has_no_line_about_passes():
    ordinary = {"ordinary": 4.0, "repeated": 4.0, "backward": 8.0}
    message = {"message": "about 1 s", "unet_calls": 16.0, "parts": ordinary}
    assert time_lines(message) == ["Time: about 1 s."]
    assert time_lines({}) == []


@each(("passes", "words"), [(12.0, "12"), (10.46, "10.5"), (133.4, "133")])
def test_passes_that_are_an_average_have_a_digit(passes, words):
    assert format_passes(passes) == words


def test_only_what_is_left_out_of_a_list_is_hinted_at():
    assert some("abc", 3) == "a, b, c"
    assert some("abcd", 4) == "a, b, c …"
