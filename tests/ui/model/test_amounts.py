"""Notes next to amounts, by hand."""

from ui.model.amounts import amount_note, amount_text, even_plan, steps_in


def test_an_amount_is_shown_in_the_other_units_that_are_known():
    plan = even_plan(images=246, images_per_step=2)  # 123 steps an epoch
    for value, with_plan, seconds, expected in [
        ("10 epochs", plan, 2.0, "about 1,230 steps, 41 min"),
        (1230, plan, 2.0, "about 10 epochs, 41 min"),
        (1230, plan, 0.0, "about 10 epochs"),
        ("41 minutes", plan, 2.0, "about 1,230 steps, 10 epochs"),
        ("41 minutes", plan, 0.0, ""),
        ("2460 images", plan, 0.0, "about 1,230 steps, 10 epochs"),
        ("10 epochs", None, 2.0, ""),
        (100, None, 2.0, "about 3.3 min"),
        (0, plan, 2.0, ""),
        ("ten", plan, 2.0, ""),
    ]:
        assert amount_note(value, with_plan, seconds) == expected, value
    assert steps_in("3 epochs", plan) == 369
    assert even_plan(0, 2) is None
    assert [amount_text(value) for value in (1, 0, "2 epochs", "many")] == [
        "1 step",
        "",
        "2 epochs",
        "",
    ]
