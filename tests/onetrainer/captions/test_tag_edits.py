"""Tags are added, removed, renamed and ordered; text is replaced; all else stays as written."""

import pytest

from onetrainer.captions import tag_edits
from onetrainer.captions.tag_counts import count_tags
from onetrainer.captions.tag_edits import (
    TagFormat,
    TextSearch,
    add_tags,
    change_tags,
    moving_first,
    ordering,
    removing,
    renaming,
    replacing,
    tag_format,
    tags_of,
)
from onetrainer.config.data.captions import Captions
from onetrainer.errors import UserError
from tests.each import each

PLAIN = TagFormat()
KEPT = tag_format(Captions(keep_separator="|||"))
WORDS = tag_format(Captions(separator=" and "))
COUNTS = [("sofa", 5), ("cat", 3), ("Evening", 3), ("red", 1)]


@each(
    "form, change, before, after",
    [
        (PLAIN, removing(["cat"]), "a cat,sofa ,red", "a cat,sofa ,red"),
        (PLAIN, removing(["A  Cat"]), "a cat,sofa ,red", "sofa, red"),
        (PLAIN, removing(["cat"]), "cat", ""),
        (PLAIN, renaming(["cat", "kitten"], "feline"), "kitten, red, cat", "feline, red"),
        (PLAIN, renaming(["cat"], "dog"), "dog, cat, dog", "dog"),
        (PLAIN, renaming(["cat"], "dog"), "bird, bird", "bird, bird"),
        (PLAIN, renaming(["cat"], "Cat"), "red, cat", "red, Cat"),
        (PLAIN, moving_first(["red", "sofa"]), "cat, sofa, red", "red, sofa, cat"),
        (PLAIN, ordering("alphabetical"), "sofa, Evening, cat", "cat, Evening, sofa"),
        (
            PLAIN,
            ordering("count", COUNTS),
            "new, red, evening, cat, sofa",
            "sofa, cat, evening, red, new",
        ),
        (PLAIN, ordering("alphabetical"), " a ,  b", " a ,  b"),
        (KEPT, ordering("alphabetical"), "z, a ||| y, b ||| d, c", "a, z ||| b, y ||| c, d"),
        (KEPT, removing(["z"]), "z ||| y", "||| y"),
        (WORDS, removing(["red"]), "sandals and red and sand", "sandals and sand"),
    ],
)
def test_a_change_of_tags(form, change, before, after):
    assert change_tags(before, form, change) == after


@each(
    "form, tags, is_first, before, after",
    [
        (PLAIN, ["new", "Cat"], True, "cat, red", "new, cat, red"),
        (PLAIN, ["new", "Cat"], False, "cat, red", "cat, red, new"),
        (PLAIN, ["cat"], True, "red,cat", "red,cat"),
        (PLAIN, ["cat"], False, "", "cat"),
        (KEPT, ["new"], True, "a ||| b", "new, a ||| b"),
        (KEPT, ["new", "a"], False, "a ||| b", "a ||| b, new"),
    ],
)
def test_tags_are_added_where_they_are_missing(form, tags, is_first, before, after):
    assert add_tags(before, form, tags, is_first=is_first) == after


def test_a_tag_is_counted_once_a_caption_and_by_its_usual_spelling():
    captions = ["Cat, cat, red", "cat", "a  b, CAT", "cat"]
    counts = count_tags(tags_of(each, PLAIN) for each in captions)
    assert list(counts) == [("cat", 4), ("a b", 1), ("red", 1)]
    odd = count_tags([["Ünö", "e\u0301"], ["Ünö"], ["ünö"], ["ö"], ["öü"]])
    assert list(odd) == [("Ünö", 3), ("e\u0301", 1), ("ö", 1), ("öü", 1)]
    assert [[*odd.having(part)] for part in ("Ö", "öe", "üNÖ")] == [
        [("Ünö", 3), ("ö", 1), ("öü", 1)],
        [],
        [("Ünö", 3)],
    ]
    streets = count_tags([["Straße", "strasse"]])  # CLIP has two tags, a search has one
    assert [*streets.having("STRASSE")] == [*streets] == [("strasse", 1), ("Straße", 1)]
    assert tags_of("z, a ||| y", KEPT) == ["z", "a", "y"]


@each(
    "search, before, after",
    [
        (TextSearch("cat", "dog"), "Cat, category", "dog, dogegory"),
        (TextSearch("cat", "dog", matches_case=True), "Cat, cat", "Cat, dog"),
        (TextSearch("cat", "dog", whole_words=True), "cat, category", "dog, category"),
        (TextSearch("a.c", r"\1\n"), "abc a.c", r"abc \1\n"),
        (TextSearch(r"(\d)(\w)", r"\2\1", is_pattern=True), "1girl", "g1irl"),
        (TextSearch(r"^", "x ", is_pattern=True), "cat", "x cat"),
    ],
)
def test_text_is_replaced(search, before, after):
    assert replacing(search)(before) == after


def test_patterns_that_cannot_be_used_are_said(monkeypatch):
    for text, replacement in (("(", ""), ("a", r"\2"), ("(a|aa)+b", ""), ("(?:){4000000}", "")):
        with pytest.raises(UserError, match="cannot be used"):
            replacing(TextSearch(text, replacement, is_pattern=True))("a")
    monkeypatch.setattr(tag_edits, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(tag_edits, "pattern_errors", lambda _: ())
    with pytest.raises(UserError, match="too long"):
        replacing(TextSearch("(y|yy)+z", is_pattern=True))("y" * 60)
