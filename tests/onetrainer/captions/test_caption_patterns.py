"""Patterns match whole tags; those that might take for ever are refused."""

import re
import string

from onetrainer.captions.patterns import MAX_PATTERN, MAX_TAG, is_listed, pattern_errors
from onetrainer.seeds import draws
from tests.each import each


def faults(*lines):
    return [(line, fault) for line, _, fault in pattern_errors("\n".join(lines))]


def test_words_are_compared_blind_to_case_and_blanks():
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
    told = list(pattern_errors(listed))
    assert [(line, pattern) for line, pattern, _ in told] == [(1, "(a"), (4, "*c")]
    assert "unterminated subpattern" in told[0][2]
    assert "nothing to repeat" in told[1][2]
    assert is_listed("bbb", listed, patterns=True)


@each(
    "pattern",
    [
        "(a+)+b",
        "(a*)*b",
        "(a|a)*b",
        "(a|aa)+b",
        "(?:a?)*b",
        r"(\w+\s?)+!",
        "((a+))+b",
        "(?=(a+)+b)a*",
        "(a{1,9}){1,9}b",
        "((a{99}){99}){99}",
        "(?:){4000000}",
        ".*" * 9 + "x",
        "a?" * 30 + "a" * 30,
        "(a|a)" * 30 + "b",
        "(?x)(a+) +b",
        "(a+)(?#c)+b",
        "(?x:(a+) +b)",
        "[]a](a+)+",
        r"\((a+)+",
        "(" * (MAX_PATTERN // 2) + ")" * (MAX_PATTERN // 2) + "(a+)+",
        "a" * (MAX_PATTERN + 1),
    ],
)
def test_patterns_that_may_take_for_ever_are_refused_and_never_tried(pattern):
    assert len(faults(pattern)) == 1
    assert not is_listed("a" * MAX_TAG, pattern, patterns=True)


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
    """Whatever is typed is either told as a fault, or matches as Python's own."""
    numbers = draws(5, "patterns")
    signs = string.punctuation + "abx01 "
    for _ in range(3000):
        pattern = "".join(signs[int(numbers.random() * len(signs))] for _ in range(8)).strip()
        if not faults(pattern) and pattern:
            expected = re.fullmatch(pattern, "abab", re.IGNORECASE) is not None
            assert is_listed("abab", pattern, patterns=True) is expected
