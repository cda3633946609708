"""Tags of captions are dropped, shuffled and written in capitals as the settings say."""

import math
from collections import Counter
from itertools import pairwise, permutations
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.data.captions import Captions
from onetrainer.dataset.caption_sampling import sample_caption
from onetrainer.dataset.items import Item
from tests.each import each

TURNS = 800


def sampled(caption, repeats=1, **settings):
    own = ConceptSettings("data.folder", "x", Path("/data"), captions=Captions(**settings), seed=1)
    item = Item(Path("/data/a.png"), (caption,), 64, 64, name="a.png")
    return [sample_caption(item, own, repeat) for repeat in range(repeats)]


def tags(caption):
    return caption.split(", ") if caption else []


def counted(shown):
    return Counter(tag for one in shown for tag in tags(one))


def is_likely(count, total, chance):
    """Within five standard deviations of a binomial: one in three million is not."""
    return abs(count - total * chance) <= 5 * math.sqrt(total * chance * (1 - chance))


# --- shuffling


def test_every_order_is_equally_likely():
    orders = Counter(sampled("a, b, c, d", TURNS, shuffle=True))
    assert set(orders) == {", ".join(order) for order in permutations("abcd")}
    expected = TURNS / 24
    squares = sum((count - expected) ** 2 / expected for count in orders.values())
    # Chi-squared of 23 degrees of freedom is above 70 once in a million times.
    assert squares < 70


def test_orders_follow_neither_turn_nor_name():
    shown = sampled("a, b, c, d, e, f, g, h", 500, shuffle=True)
    assert sum(one == other for one, other in pairwise(shown)) <= 2


# --- what stays


@each("mode", ["all", "each", "later"])
def test_kept_tags_never_move_nor_vanish(mode):
    shown = sampled(
        "k1, k2, a, b, c, d", 500, keep=2, shuffle=True, drop_tags=mode, drop_chance=0.9
    )
    assert all(tags(one)[:2] == ["k1", "k2"] for one in shown)
    assert len(set(shown)) > 5 or mode == "all"


def test_tags_before_the_mark_and_after_a_second_one_stay():
    shown = sampled(
        "x, y ||| a, b, c ||| z",
        500,
        keep_separator="|||",
        shuffle=True,
        drop_tags="each",
        drop_chance=0.5,
    )
    assert all(tags(one)[:2] == ["x", "y"] and tags(one)[-1] == "z" for one in shown)
    assert {frozenset(tags(one)[2:-1]) for one in shown} >= {frozenset("abc"), frozenset()}


def test_mark_outweighs_the_number_of_kept_tags():
    shown = sampled("x ||| a, b", 100, keep_separator="|||", keep=2, shuffle=True)
    assert set(shown) == {"x, a, b", "x, b, a"}
    assert set(sampled("x, a, b", 50, keep_separator="|||", keep=2, shuffle=True)) == {"x, a, b"}


# --- dropping


@each("mode", ["all", "each"])
def test_tags_are_dropped_with_their_chance(mode):
    left = counted(sampled("a, b, c, d", TURNS, drop_tags=mode, drop_chance=0.3))
    assert all(is_likely(left[tag], TURNS, 0.7) for tag in "abcd")


def test_all_are_dropped_together_or_not_at_all():
    assert set(sampled("a, b, c", 200, drop_tags="all", drop_chance=0.5)) == {"a, b, c", ""}


def test_later_tags_are_dropped_more_often():
    """The k-th of four with k/4 of the chance; kept ones are not counted."""
    shown = sampled("k, a, b, c, d", TURNS, keep=1, drop_tags="later", drop_chance=0.8)
    left = counted(shown)
    for tag, chance in zip("abcd", [0.2, 0.4, 0.6, 0.8], strict=True):
        assert is_likely(left[tag], TURNS, 1 - chance)
    assert left["k"] == TURNS


def test_protected_tags_do_not_count_among_later_ones():
    left = counted(
        sampled(
            "x, a, b",
            TURNS,
            drop_tags="later",
            drop_chance=0.8,
            drop_listed="keep",
            listed_tags="x",
        )
    )
    assert is_likely(left["a"], TURNS, 0.6)
    assert is_likely(left["b"], TURNS, 0.2)


# --- tags that stay together


def test_tags_of_the_secondary_separator_move_and_vanish_together():
    shown = sampled(
        "a;;;b, c, d",
        300,
        secondary_separator=";;;",
        shuffle=True,
        drop_tags="each",
        drop_chance=0.4,
    )
    assert all(("a" in one) == ("b" in one) for one in shown)
    assert all("a, b" in one for one in shown if "a" in one)
    assert {tags(one)[0] for one in shown if one} == {"a", "c", "d"}


# --- separators


@each(
    ("separator", "caption", "shown"),
    [
        (",", "a,b ,  c", {"a, b, c"}),
        (", ", "a,b ,  c", {"a, b, c"}),
        ("|", "a, x|b|c", {"a, x| b| c"}),
        (" ", "a b  c", {"a b c"}),
        (" and ", "sandals and hands and c", {"sandals and hands and c"}),
        ("。", "猫。犬。c", {"猫。 犬。 c"}),
    ],
)
def test_tags_are_split_and_joined_at_the_separator(separator, caption, shown):
    assert set(sampled(caption, separator=separator, shuffle=True, keep=3)) == shown
    moved = sampled(caption, 100, separator=separator, shuffle=True)
    assert len(set(moved)) == 6


# --- letters


def test_capitals_come_with_their_chance_for_each_tag():
    left = counted(sampled("a, b, c", TURNS, capitals="upper", capitals_chance=0.2))
    assert all(is_likely(left[tag], TURNS, 0.2) for tag in "ABC")


def test_any_capitals_are_of_every_kind():
    shown = Counter(sampled("ab cd", TURNS, capitals="any", capitals_chance=1.0))
    # A quarter each, besides the random kind, which is each of 16 spellings equally often.
    for spelling in ["AB CD", "Ab Cd", "Ab cd"]:
        assert is_likely(shown[spelling], TURNS, 0.25 + 0.25 / 16)


# --- what does not depend on chance

ALL = {"drop_tags": "all", "drop_chance": 1.0}
EACH = {"drop_tags": "each", "drop_chance": 1.0}
KEPT, DROPPED = {"drop_listed": "keep"}, {"drop_listed": "drop"}
TOGETHER = {"secondary_separator": ";;;"}
WORDS = "don't look, (red) hat, été"


@each(
    ("caption", "settings", "shown"),
    [
        # Marks are taken out where nothing is shuffled.
        ("x|||a ||| b ||| c", {"keep_separator": " ||| "}, "x, a, b, c"),
        # Listed tags are never dropped, or they alone; patterns match whole tags.
        ("Red  Hat, b, c", EACH | KEPT | {"listed_tags": "c\n\n  red hat \n"}, "Red Hat, c"),
        ("a, b, c", ALL | DROPPED | {"listed_tags": "b\nA"}, "c"),
        ("red hat, hat, hats, old hat",
         ALL | DROPPED | {"listed_tags": r"\w+ hat", "listed_regex": True}, "hat, hats"),
        # They protect those that stay with them.
        ("a;;;b, c", ALL | KEPT | TOGETHER | {"listed_tags": "a"}, "a, b"),
        ("a;;;b, a, c", ALL | DROPPED | TOGETHER | {"listed_tags": "a"}, "a, b, c"),
        # Letters: small ones come before capitals.
        *[
            (WORDS, {"capitals": mode, "capitals_chance": 1.0}, shown)
            for mode, shown in [
                ("upper", "DON'T LOOK, (RED) HAT, ÉTÉ"),
                ("title", "Don't Look, (Red) Hat, Été"),
                ("first", "Don't look, (Red) hat, Été"),
            ]
        ],
        ("A Red HAT, ÀB", {"lowercase": True, "capitals": "first", "capitals_chance": 1.0},
         "A red hat, Àb"),
        ("A Red HAT,ÀB", {"lowercase": True}, "a red hat,àb"),
    ],
)  # fmt: skip
def test_captions_are_written_as_settings_say(caption, settings, shown):
    assert sampled(caption, **settings) == [shown]
