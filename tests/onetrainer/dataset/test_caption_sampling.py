"""Captions are sampled from seed, image and repeat, in the order that is written down."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.data.captions import Captions
from onetrainer.dataset import caption_sampling
from onetrainer.dataset.caption_sampling import (
    CaptionSampler,
    captions_vary,
    item_captions_vary,
    plain_caption,
    sample_caption,
)
from onetrainer.dataset.items import Item
from tests.each import each

TURNS = 1000


def image(*captions, name="pets/a cat.png"):
    return Item(Path("/data/pets/a cat.png"), captions, 64, 64, name=name)


def concept(*, trigger="", seed=3, name="Cats", **captions):
    return ConceptSettings(
        setting_path="data.folder",
        name=name,
        folder=Path("/data"),
        seed=seed,
        trigger=trigger,
        captions=Captions(**captions),
    )


def sampled(caption, repeats=1, name="a.png", **settings):
    """What a caption, or several, becomes in each turn."""
    captions = (caption,) if isinstance(caption, str) else caption
    own = concept(**settings)
    return [sample_caption(image(*captions, name=name), own, repeat) for repeat in range(repeats)]


def tags(caption):
    return caption.split(", ") if caption else []


def is_likely(count, total, chance):
    """Within five standard deviations of a binomial: one in three million is not."""
    return abs(count - total * chance) <= 5 * math.sqrt(total * chance * (1 - chance))


# --- what nothing changes


OHWX = {"trigger": "ohwx man"}
SHARP = {"template": "a photo of {caption}, sharp"}


@each(
    ("caption", "settings", "shown"),
    [
        # Captions stay as written unless something is set.
        *[(caption, {}, caption)
          for caption in ("a cat,on a sofa", "", "{a|b} ||| c;;;d", "ſtrange İ ﬁ 猫")],
        # Dropout gives the true empty prompt over trigger and template.
        ("cat", OHWX | SHARP | {"dropout": 1.0}, ""),
        # Every caption begins with the trigger once, which is taken as text.
        ("a cat", OHWX, "ohwx man, a cat"),
        ("", OHWX, "ohwx man"),
        ("OHWX  man, hat", OHWX, "OHWX man, hat"),
        ("ohwx man in a hat", OHWX, "ohwx man in a hat"),
        ("ohwx mannequin", OHWX, "ohwx man, ohwx mannequin"),
        ("a photo of ohwx man", OHWX, "ohwx man, a photo of ohwx man"),
        ("c++ (.*), x", {"trigger": "c++ (.*)"}, "c++ (.*), x"),
        ("x", {"trigger": "c++ (.*)"}, "c++ (.*), x"),
        # What is tied to it stays with it, and its mark goes.
        ("ohwx;;;Blue, a", {"trigger": "ohwx", "secondary_separator": ";;;", "lowercase": True},
         "ohwx, blue, a"),
        # A template knows its placeholders, and leaves no gap around an empty caption.
        ("a {b}", {"template": "{concept}: {caption} ({name} in {folder}) {{x}}"},
         "Cats: a {b} (a cat in pets) {x}"),
        ("", SHARP, "a photo of, sharp"),
        ("", {"template": "{folder}, {caption}, sharp"}, "pets, sharp"),
    ],
)  # fmt: skip
def test_captions_become_what_settings_say(caption, settings, shown):
    assert sampled(caption, 3, **settings) == [shown] * 3


def test_same_seed_image_and_turn_give_the_same_caption():
    settings = {"shuffle": True, "drop_tags": "each", "drop_chance": 0.5, "dropout": 0.3}
    first, again = (sampled("a, b, c, d, e, f", 50, **settings) for _ in range(2))
    assert first == again
    assert first != sampled("a, b, c, d, e, f", 50, seed=4, **settings)
    assert first != sampled("a, b, c, d, e, f", 50, name="b.png", **settings)


def test_turning_one_thing_on_leaves_other_samples_as_they_were():
    plain = sampled("a, b, c, d, e", 100, shuffle=True)
    also = sampled("a, b, c, d, e", 100, shuffle=True, dropout=0.3, capitals="upper")
    assert [one.lower() for one in also if one] == [
        one for one, other in zip(plain, also, strict=True) if other
    ]


# --- dropout


def test_dropout_replaces_its_fraction_of_captions():
    dropped = sampled("cat", TURNS, dropout=0.1).count("")
    assert is_likely(dropped, TURNS, 0.1)


# --- several captions, and choices


def test_alternatives_are_each_taken_once_a_round():
    shown = sampled(("a", "b", "c", "d", "e"), 500)
    rounds = [tuple(shown[at : at + 5]) for at in range(0, 500, 5)]
    assert {tuple(sorted(one)) for one in rounds} == {("a", "b", "c", "d", "e")}
    assert len(set(rounds)) > 40


def test_choices_are_each_made_equally_often():
    shown = Counter(sampled("a {red|green|blue} {big|small} cat", 600, wildcards=True))
    colors = Counter(one.split()[1] for one in shown.elements())
    assert colors == {"red": 200, "green": 200, "blue": 200}
    sizes = Counter(one.split()[2] for one in shown.elements())
    assert sizes == {"big": 300, "small": 300}
    assert len(shown) == 6


def test_alternatives_make_their_choices_independently():
    shown = sampled(("x{a|b}", "y{a|b}"), 4 * 200, wildcards=True)
    first, second = ([one[1] for one in shown if one[0] == name] for name in "xy")
    assert is_likely(sum(map(str.__eq__, first[::2], second[::2])), 200, 0.5)


# --- trigger words


@each("caption", ["a, b, c, d", "ohwx Man, a, b, c, d"])
def test_trigger_never_moves_nor_vanishes_nor_changes(caption):
    shown = sampled(
        caption,
        300,
        trigger="ohwx Man",
        shuffle=True,
        drop_tags="each",
        drop_chance=0.5,
        capitals="any",
        capitals_chance=1.0,
        lowercase=True,
    )
    assert all(tags(one)[0] == "ohwx Man" for one in shown)
    assert all(set(map(str.lower, tags(one)[1:])) <= set("abcd") for one in shown)


# --- template


def test_text_of_a_template_is_no_tag():
    shown = sampled("b, c", 50, template="a, {caption}, d", shuffle=True)
    assert set(shown) == {"a, b, c, d", "a, c, b, d"}
    gone = sampled("b, c", template="a, {caption}, d", drop_tags="all", drop_chance=1.0)
    assert gone == ["a, d"]


def test_templates_choices_are_made_and_what_is_put_in_is_not():
    shown = Counter(
        sampled("{{x|y}}", 90, template="{a|an old|no} photo, {caption}", wildcards=True)
    )
    assert shown == {f"{one} photo, {{x|y}}": 30 for one in ("a", "an old", "no")}


# --- all of it together


def test_order_of_all_steps_by_hand():
    """All that is left to chance here has one outcome."""
    shown = sampled(
        "OHWX, Red {Hat}; Blue+++Shoes; Green ||| Last One",
        2,
        trigger="ohwx",
        template="photo of {caption} by ME",
        wildcards=True,
        separator=";",
        secondary_separator="+++",
        keep_separator="|||",
        drop_tags="all",
        drop_chance=1.0,
        drop_listed="drop",
        listed_tags="last one",
        lowercase=True,
        capitals="upper",
        capitals_chance=1.0,
    )
    # Split at ";", "OHWX, Red Hat" is one tag: it begins with the trigger, so all of it stays.
    assert shown == ["photo of OHWX, red hat; BLUE; SHOES; GREEN by ME"] * 2


def test_plain_caption_samples_nothing():
    own = concept(
        trigger="ohwx",
        template="photo of {caption}",
        dropout=1.0,
        shuffle=True,
        drop_tags="all",
        drop_chance=1.0,
        capitals="upper",
        capitals_chance=1.0,
        wildcards=True,
        lowercase=True,
        secondary_separator=";;;",
        keep_separator="|||",
    )
    item = image("{Red|Blue} ||| Hat;;;{Old|New} Shoes", "other")
    assert plain_caption(item, own) == "photo of ohwx, red, hat, old shoes"


# --- whether anything varies


@each(
    ("settings", "expected"),
    [
        ({}, False),
        ({"dropout": 0.5}, False),
        ({"template": "x {caption}", "lowercase": True, "keep": 3}, False),
        ({"shuffle": True}, True),
        ({"wildcards": True}, True),
        ({"drop_tags": "each", "drop_chance": 0.0}, False),
        ({"drop_tags": "each", "drop_chance": 1.0}, False),
        ({"drop_tags": "later", "drop_chance": 1.0}, True),
        ({"drop_tags": "all", "keep": 1}, True),
        ({"capitals": "upper", "capitals_chance": 1.0}, False),
        ({"capitals": "random", "capitals_chance": 1.0}, True),
        ({"capitals": "title"}, True),
    ],
)
def test_varies_shows_whether_more_than_itself_is_shown(settings, expected):
    assert captions_vary(Captions(**settings)) is expected
    assert (len(set(sampled("aa bb, cc, dd, {ee|ff}", 200, **settings)) - {""}) > 1) is expected


@each(
    ("captions", "settings", "expected"),
    [
        (("a",), {}, False),
        (("a", "b"), {}, True),
        (("a", "a"), {}, False),
        (("a",), {"dropout": 0.1}, True),
        (("a", "b"), {"dropout": 1.0}, False),
        (("a",), {"wildcards": True}, False),
        (("{a|b}",), {"wildcards": True}, True),
        (("a",), {"wildcards": True, "template": "{x|y} {caption}"}, True),
        (("{a",), {"wildcards": True}, False),
        (("a, b",), {"shuffle": True}, True),
    ],
)
def test_varies_for_shows_whether_an_image_has_several_captions(captions, settings, expected):
    own = concept(**settings)
    assert item_captions_vary(image(*captions), own) is expected
    shown = {sample_caption(image(*captions), own, repeat) for repeat in range(200)}
    assert (len(shown) > 1) is expected


def test_a_sampler_gives_the_same_captions_and_remembers_no_other(monkeypatch):
    monkeypatch.setattr(caption_sampling, "_REMEMBERED", 3)
    concepts = [
        concept(),
        concept(dropout=0.3, trigger="ohwx", template="a {name}: {caption}"),
        concept(shuffle=True, dropout=0.2),
        concept(wildcards=True),
    ]
    items = [
        replace(image(*captions), concept=number, path=Path(f"/data/{number}{captions[0]}.png"))
        for number in range(len(concepts))
        for captions in (("a cat, red",), ("a, b, c", "d"), ("{red|green} cat",))
    ]
    sampler = CaptionSampler(concepts)
    for repeat in range(40):
        for item in items:
            assert sampler(item, repeat) == sample_caption(item, concepts[item.concept], repeat)
