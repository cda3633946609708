"""The steps that follow from a number of images."""

from onetrainer.guide.length import interval_for, length_reason, steps_for


def test_each_image_is_trained_about_a_hundred_times_within_the_usual_lengths():
    for images, at_once, most, steps in (
        (10, 1, 4000, 1000),
        (10, 2, 1200, 500),
        (11, 2, 1200, 550),
        (13, 4, 4000, 400),  # 325 are too few
        (1, 1, 4000, 400),
        (40, 2, 1200, 1200),
        (5000, 4, 3000, 3000),
        (10, 1, 300, 300),
    ):
        assert steps_for(images, at_once=at_once, most=most) == steps


def test_samples_and_checkpoints_come_as_often_in_fewer_steps():
    assert interval_for(400, steps=1000, of=4000) == 100
    assert interval_for(100, steps=500, of=1200) == 50
    assert interval_for(10, steps=400, of=4000) == 25
    assert (interval_for(0, steps=400, of=4000), interval_for(100, steps=9, of=9)) == (0, 100)


def test_a_length_is_told_by_image():
    assert length_reason(1000, images=10, at_once=1) == "10 images × about 100 each"
    assert length_reason(400, images=13, at_once=4) == "13 images × about 120 each, 4 at a time"
    assert length_reason(3000, images=10_000, at_once=1) == "10,000 images × about 0.3 each"
    assert length_reason(1500, images=1, at_once=1) == "1 image × about 1,500 each"
