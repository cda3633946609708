"""Choices within texts are read as written, and braces that do not match are reported."""

import pytest

from onetrainer.captions.choices import (
    MAX_DEPTH,
    BraceError,
    all_choices,
    choose_options,
    parse_choices,
    written_order,
)
from tests.each import each


def all_of(text, repeats):
    return [choose_options(parse_choices(text), repeat, written_order) for repeat in range(repeats)]


@each(
    ("text", "shown"),
    [
        ("{a|b}", ["a", "b"]),
        ("x {a|b|} y", ["x a y", "x b y", "x  y"]),
        ("{a}", ["a"]),
        ("{}", [""]),
        ("a | b", ["a | b"]),
        ("{{a|b}}", ["{a|b}"]),
        ("{{{a|b}}}", ["{a}", "{b}"]),
        ("{a|{b|c}}", ["a", "b", "a", "c"]),
        ("{{a", ["{a"]),
        ("{猫|犬}🐈", ["猫🐈", "犬🐈"]),
    ],
)
def test_choices_are_taken_in_turn(text, shown):
    assert all_of(text, len(shown)) == shown


def test_choices_are_numbered_in_the_order_of_their_braces():
    found = all_choices(parse_choices("{a|{b|c}} {d}"))
    assert [(one.place, len(one.options)) for one in found] == [(0, 2), (1, 2), (2, 1)]


@each(
    ("text", "reported"),
    [
        ("a {red|blue", 'before "red|blue"'),
        ("a red|blue} b", 'after "a red|blue"'),
        ("{{a|b}|c}", 'after "{{a|b"'),
        ("{a|{b}", 'before "a|{b}"'),
        ("{ " * (MAX_DEPTH + 1), "more than 10"),
        ("a {", "at the end"),
        ("} a", "at the beginning"),
        ("{ " * 100_000, "more than 10"),
    ],
)
def test_braces_that_do_not_fit_are_reported(text, reported):
    with pytest.raises(BraceError) as refused:
        parse_choices(text)
    assert reported in str(refused.value)


def test_what_is_put_in_is_not_read_again():
    text = choose_options(
        parse_choices("{caption} by {name}"), 0, written_order, {"caption": "{name}", "name": "N"}
    )
    assert text == "{name} by N"
