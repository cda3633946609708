"""Rules of concept sliders."""

from tests.each import each
from tests.onetrainer.rules.rule_cases import check

AGE = {"target": "person", "positive": "old person", "negative": "young person"}
SOUND = {"data.folder": "", "objective.kind": "slider", "objective.directions": [AGE]}


@each(
    "case",
    [
        ({},),
        ({"objective.directions": []}, "error objective.directions"),
        ({"objective.directions": [AGE, AGE]}, "warning objective.directions.1"),
        ({"objective.directions": [AGE, AGE | {"action": "erase"}]},),
        ({"objective.directions": [AGE | {"negative": "old person "}]},
         "error objective.directions.0.positive"),
        ({"method.kind": "full"}, "error method.kind"),
        ({"method.kind": "dora"},),
        ({"model.family": "sd15-inpainting"}, "error model.family"),
        ({"model.family": "sdxl"}, "warning objective.width"),
        ({"validation.use": True}, "error validation.use"),
        ({"embeddings.tokens": [{"token": "<x>", "initial_text": "a cat"}]},
         "error embeddings.tokens"),
    ],
)  # fmt: skip
def test_a_slider_is_refused_or_warned_of(case):
    check(SOUND | case[0], *case[1:])
