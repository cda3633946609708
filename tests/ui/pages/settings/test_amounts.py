"""Notes next to amounts, by hand."""

from types import SimpleNamespace

from onetrainer.dataset.batch_plan import BatchPlan
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.epoch_order import ConceptSlice
from onetrainer.schedules.amounts import known_steps
from ui.model.amounts import amount_text
from ui.pages.settings.amounts import amount_note, steps_in, times_due


def data_of(config, images, batch):
    """What a card needs of the preview of so many images of one size."""
    size = Bucket(64, 64)
    one = ConceptSlice(0, images, images, 0, lambda *_: 0, lambda *_: size, period=1)
    batches = BatchPlan([one], batch_size=batch, accumulation=1, seed=0)
    known = known_steps(config, batches)
    return SimpleNamespace(
        preview=SimpleNamespace(batches=batches, known_steps=known, unexamined=0)
    )


def with_length(draft, length):
    draft.set("training.steps", length)
    return draft.config()


def test_an_amount_is_shown_in_the_other_units_that_are_known(draft):
    for value, is_known, seconds, expected in [
        ("10 epochs", True, 2.0, "about 1,230 steps, 41 min"),
        (1230, True, 2.0, "about 10 epochs, 41 min"),
        (1230, True, 0.0, "about 10 epochs"),
        ("41 minutes", True, 2.0, "about 1,230 steps, 10 epochs"),
        ("41 minutes", True, 0.0, ""),
        ("2460 images", True, 0.0, "about 1,230 steps, 10 epochs"),
        ("10 epochs", False, 2.0, ""),
        (100, False, 2.0, "about 3.3 min"),
        (0, True, 2.0, ""),
    ]:
        # 123 steps an epoch
        data = data_of(with_length(draft, value or 1), 246, 2) if is_known else None
        assert amount_note(value, data, seconds) == expected, value
    assert steps_in("3 epochs", data_of(with_length(draft, "3 epochs"), 246, 2)) == 369
    assert amount_note("ten", None, 2.0) == ""
    texts = [amount_text(value) for value in (1, 0, "2 epochs", "10000 images", "many")]
    assert texts == ["1 step", "", "2 epochs", "10,000 images", ""]


def test_intervals_are_counted_as_a_run_meets_them(draft):
    data = data_of(draft.config(), 5, 2)  # 3 steps an epoch, of 2, 2 and 1 images
    for every, steps, times in [
        (4, 12, 3),
        (4, 11, 2),
        (0, 12, 0),
        ("2 epochs", 12, 2),
        ("2 epochs", 11, 1),
        ("4 images", 6, 2),
        ("many", 12, None),
    ]:
        assert times_due(every, data, steps) == times, (every, steps)
    assert times_due("2 epochs", None, 12) is None
    assert times_due("1 minute", None, 12, seconds=10.0) == 2
