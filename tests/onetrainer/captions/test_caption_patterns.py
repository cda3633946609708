"""Patterns match whole tags; those that take for ever end."""

import re
import string

import pytest

from onetrainer.captions import patterns
from onetrainer.captions.patterns import ENDLESS, MAX_PATTERN, MAX_TAG, is_listed, pattern_errors
from onetrainer.errors import UserError
from onetrainer.seeds import draws
from tests.each import each


def faults(*lines):
    return [(line, fault) for line, _, fault in pattern_errors("\n".join(lines))]


def test_tags_are_compared_blind_to_case_and_blanks():
    listed = "Red  Hat\n\n(cat:1.2)\n"
    assert is_listed("red hat", listed, patterns=False)
    assert is_listed("(CAT:1.2)", listed, patterns=False)
    assert not is_listed("red", listed, patterns=False)
    assert not is_listed("", listed, patterns=False)


def test_patterns_are_compared_blind_to_case():
    assert is_listed("Long  Hair", r"(long|short) hair", patterns=True)
    assert not is_listed("long hair, red", r"(long|short) hair", patterns=True)


def test_faults_are_reported_by_line_and_others_still_match():
    listed = "(a\n\nb+\n*c"
    reported = list(pattern_errors(listed))
    assert [(line, pattern) for line, pattern, _ in reported] == [(1, "(a"), (4, "*c")]
    assert "unterminated subpattern" in reported[0][2]
    assert "nothing to repeat" in reported[1][2]
    assert is_listed("bbb", listed, patterns=True)


@each(
    "pattern",
    ["(a|aa)+b", "(a{1,9}){1,9}b", "(a|a)" * 30 + "b", "(?:a|b|ab|ba)*[cd]"],
)
def test_patterns_that_may_take_for_ever_are_refused_and_never_matched(pattern):
    assert faults(pattern) == [(1, ENDLESS)]
    assert not is_listed("a" * MAX_TAG, pattern, patterns=True)


@each("pattern", ["(?:){4000000}", "((((a{99}){99}){99}){99})", "a" * (MAX_PATTERN + 1)])
def test_large_patterns_are_refused_and_never_compiled(pattern):
    assert len(faults(pattern)) == 1
    assert not is_listed("a" * MAX_TAG, pattern, patterns=True)


def test_pattern_that_no_trial_finds_out_ends_by_the_clock(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(patterns, "_pattern_error", lambda _: "")
    with pytest.raises(UserError, match="may take forever"):
        is_listed("y" * MAX_TAG, "(y|yy)+z", patterns=True)


@each(
    ("pattern", "tag"),
    [
        (r".*(hair|eyes).*", "long blue eyes now"),
        (r"(?!red).* hat", "old hat"),
        (r"\d{1,3}(st|nd|rd|th)?", "12th"),
        (r"(very )+big", "very very big"),
        (r"[a-z\]+*?]+", "a]+*?"),
        (r"(?i)score_\d+(_up)?", "score_9_up"),
        (r"a{2,}", "aaaa"),
        (r"{a}", "{a}"),
        (r"\(.+?\)", "(x y)"),
        (r"(?P<x>\w)\w*(?P=x)", "abca"),
        (r".*a.*b.*", "xaxbx"),
        (r"(a+)+b", "aab"),
        (r"(\w+\s?)+!", "so many words!"),
        (r"(?x) (a+) + b  # as in a book", "aab"),
        (r"a{e}", "a{e}"),
        (r"[{e}]+", "{e"),
        (r"[猫犬]+", "猫犬"),
    ],
)
def test_patterns_that_people_write_are_taken(pattern, tag):
    assert faults(pattern) == []
    assert is_listed(tag, pattern, patterns=True)


def test_long_tags_are_tried_with_no_pattern():
    assert is_listed("a" * MAX_TAG, "a+", patterns=True)
    assert not is_listed("a" * (MAX_TAG + 1), "a+", patterns=True)


def test_no_pattern_makes_the_list_fail():
    """Every pattern is either reported as a fault, or matches as Python's own."""
    numbers = draws(5, "patterns")
    signs = string.punctuation + "abx01 "
    for _ in range(1500):
        pattern = "".join(signs[int(numbers.random() * len(signs))] for _ in range(8)).strip()
        if not faults(pattern) and pattern:
            expected = re.fullmatch(pattern, "abab", re.IGNORECASE) is not None
            assert is_listed("abab", pattern, patterns=True) is expected
