"""The verdict on a slider's ends."""

from onetrainer.metrics.slider import Shift, judge, moved, warning_of


def shift(along, length=4.0, loss=1.0):
    return Shift(loss, along, length)


def test_the_way_is_that_of_all_latents_together():
    assert moved([shift(1.0), shift(2.0, length=2.0)]) == 0.5
    assert moved([shift(0.0, length=0.0)]) == 0.0


def test_the_verdict_names_both_ends_and_the_best_step():
    first = judge(5, {1.0: [shift(2.0)], -1.0: [shift(1.0, loss=3.0)]}, past=[])
    assert (first.verdict, first.loss, first.best_step) == ("first", 2.0, 5)
    assert first.message == (
        "The slider moves predictions 50 % of the way at +1 and 25 % of the way at -1."
    )
    assert first.concepts["at -1"] == {"loss": 3.0, "moved": 0.25}
    worse = judge(10, {1.0: [shift(0.0, loss=9.0)]}, past=[first])
    assert (worse.verdict, worse.is_best, worse.best_step) == ("flat", False, 5)


def test_an_end_that_does_not_move_is_warned_of():
    assert warning_of({1.0: [shift(3.0)], -1.0: [shift(3.0)]}) is None
    for along in (-3.0, 0.0, -1e-9):
        text = warning_of({1.0: [shift(3.0)], -1.0: [shift(along)]})
        assert "75 % of the way at +1" in text
        assert "-0 %" not in text
