"""What new entries of lists begin with."""

from onetrainer.config.fields import setting_at
from onetrainer.config.run.schedule import Point
from ui.model.new_entries import unique_name, with_new_entry, with_unique_name

WORDS, PROMPTS, POINTS = (
    setting_at(path) for path in ("embeddings.tokens", "sampling.prompts", "schedule.points")
)


def test_a_name_that_is_taken_gets_a_number_within_its_brackets():
    for text, taken, name in [
        ("<my-word>", set(), "<my-word>"),
        ("<my-word>", {"<my-word>"}, "<my-word-2>"),
        ("<my-word>", {"<my-word>", "<my-word-2>"}, "<my-word-3>"),
        ("<my-word-2>", {"<my-word-2>"}, "<my-word-3>"),
        ("Cat", {"cat"}, "Cat-2"),
        ("[[a]]", {"[[a]]"}, "[[a-2]]"),
    ]:
        assert unique_name(text, taken) == name, (text, taken, name)


def test_new_tokens_differ_and_prompts_may_be_alike():
    words, _ = with_new_entry(WORDS, [], {})
    words, place = with_new_entry(WORDS, [{**words[0], "vectors": 4}], {})
    assert (words[1]["token"], words[1]["vectors"], place) == ("<my-word-2>", 4, 1)
    assert with_unique_name(WORDS, dict(words[1]), words)["token"] == "<my-word-3>"
    prompt = {"prompt": "a cat"}
    assert with_unique_name(PROMPTS, prompt, [prompt]) == prompt


def points(values):
    return [(value["at"], value["factor"]) for value in values]


def test_points_are_the_beginning_the_end_and_then_the_middle_of_the_widest_gap():
    values, places = [], []
    for _ in range(4):
        values, place = with_new_entry(POINTS, values, {})
        places.append(place)
    assert points(values) == [(0, 1), (0.25, 0.75), (0.5, 0.5), (1, 0)]
    assert places == [0, 1, 1, 1]


def test_a_point_more_keeps_their_order():
    for there, added, place in [
        ([(0.0, 1.0), (0.4, 2.0)], (1, 0), 2),
        ([(0.5, 2.0), (1.0, 0.0)], (0, 1), 0),
        ([(0.0, 1.0), (0.2, 3.0), (1.0, 1.0)], (0.6, 2), 2),
        ([(1.0, 2.0)], (0, 1), 0),
    ]:
        values = [Point(at=at, factor=factor).model_dump() for at, factor in there]
        made, where = with_new_entry(POINTS, values, {})
        assert (points(made)[where], where) == (added, place), (there, added, place)
        assert made[:where] + made[where + 1 :] == values, (there, added, place)


def test_a_point_can_be_added_to_those_that_are_wrong_yet():
    made, where = with_new_entry(POINTS, [{"at": "soon", "factor": 1.0}], {})
    assert (points(made)[1], where) == ((1, 0), 1)
