"""Settings of captions that cannot work are reported before anything is sampled by them."""

from onetrainer.captions.caption_rules import caption_problems
from onetrainer.config.data.captions import Captions
from onetrainer.errors import Fix
from tests.each import each

PATH = "data.concepts.1.captions"
DROPS = {"drop_tags": "each", "drop_listed": "drop"}


def reported(**settings):
    return [
        (one.path.removeprefix(f"{PATH}."), one.severity, str(one))
        for one in caption_problems(Captions(**settings), PATH)
    ]


@each(
    "settings",
    [
        {},
        {"template": "{caption}"},
        {"template": "{{x}} {caption} {name} {folder} {concept}"},
        {"template": "{a|{caption} b} {caption}", "wildcards": True},
        {"separator": " ", "secondary_separator": ";;;", "keep_separator": "|||"},
        {"listed_tags": "(", "listed_regex": True},
        {"listed_tags": "a\n\nb.*", "listed_regex": True, **DROPS},
        {"dropout": 0.99, "drop_tags": "all", "drop_chance": 1.0},
    ],
)
def test_settings_that_work_are_silent(settings):
    assert reported(**settings) == []


@each(
    ("settings", "place", "words"),
    [
        ({"template": "a photo"}, "template", "no place for the caption"),
        ({"template": "{{caption}}"}, "template", "no place for the caption"),
        ({"template": "{caption} {Name}"}, "template", "Did you mean {name}?"),
        ({"template": "{caption} {artist}"}, "template", "Expected one of {caption}, {name}"),
        ({"template": "{caption"}, "template", 'without "}" before "caption"'),
        ({"template": "{caption}}"}, "template", 'without "{"'),
        ({"template": "{caption} {}"}, "template", "there is no"),
        ({"template": "{a|b} {caption}"}, "template", "Wildcards"),
        ({"template": "{a {x} |b} {caption}", "wildcards": True}, "template", 'no "{x}"'),
        ({"secondary_separator": "  "}, "secondary_separator", "spaces"),
        ({"keep_separator": ","}, "keep_separator", "separates tags already"),
        ({"secondary_separator": ",,"}, "secondary_separator", "separates tags already"),
        ({"keep_separator": ";;;", "secondary_separator": ";"}, "keep_separator", "overlap"),
        ({"listed_tags": "a\n(b", "listed_regex": True, **DROPS}, "listed_tags", "line 2: "),
        ({"listed_tags": "(a|aa)+b", "listed_regex": True, **DROPS}, "listed_tags", "forever"),
    ],
)
def test_settings_that_cannot_work_forbid_the_start(settings, place, words):
    ((path, severity, text),) = reported(**settings)
    assert (path, severity) == (place, "error")
    assert words in text


@each(
    ("settings", "place", "words"),
    [
        ({"dropout": 1.0}, "dropout", "empty prompt"),
        (DROPS, "listed_tags", "no tag is dropped"),
        ({**DROPS, "listed_tags": "a, b"}, "listed_tags", '"a, b" matches no tag'),
    ],
)
def test_unusual_settings_are_warned_of(settings, place, words):
    ((path, severity, text),) = reported(**settings)
    assert (path, severity) == (place, "warning")
    assert words in text


def test_choices_of_a_template_can_be_rotated_on():
    (problem,) = caption_problems(Captions(template="{a|b} {caption}"), PATH)
    assert problem.fix == Fix(f"{PATH}.wildcards", True)


def test_many_bad_patterns_are_reported_in_short():
    found = reported(listed_tags="(\n" * 50, listed_regex=True, **DROPS)
    assert len(found) == 6
    assert "45 more lines" in found[-1][2]
