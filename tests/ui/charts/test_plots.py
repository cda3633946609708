"""The small plots next to the settings: of the learning rate, and of the noise."""

import pytest

from onetrainer.config.fields import setting_at
from onetrainer.config.objectives.timesteps import Beta, Uniform
from onetrainer.config.run.schedule import Constant, Linear, Point, Points
from ui.model.draft import Draft
from ui.pages.settings.noise_plot import density_bins, weight_curve
from ui.pages.settings.rate_plot import rate_curve, rate_points, rate_title
from ui.pages.settings.small_plot import PlotCurve
from ui.theme.smooth import area


def test_a_rate_begins_at_the_first_step_and_ends_at_the_last():
    points = rate_points(Linear(), steps=5)
    assert [place for place, _ in points] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert [rate for _, rate in points] == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])
    assert rate_points(Constant(), steps=1) == [(0, 1), (1, 1)]


def test_a_warm_up_is_a_straight_line_up_to_the_full_rate():
    for steps in (20, 200, 1003, 100_000):
        warmup = steps // 10
        points = rate_points(Constant(warmup_steps=warmup), steps=steps)
        assert len(points) < 200
        factors = [min(1, place * (steps - 1) / warmup) for place, _ in points]
        assert [factor for _, factor in points] == pytest.approx(factors), steps
        assert (warmup / (steps - 1), 1.0) in points


def test_points_may_lie_above_the_rate():
    points = Points(points=(Point(at=0.0, factor=3.0), Point(at=1.0, factor=0.0)))
    assert max(rate for _, rate in rate_points(points, steps=1000)) == 3


def test_the_plot_of_the_rate_scales_it_with_the_batch():
    draft = Draft()
    changed = {"optimizer.lr": 1e-3, "training.batch_size": 3, "training.accumulation": 3}
    for path, value in (changed | {"training.lr_scaling": "sqrt"}).items():
        draft.set(path, value)
    curve = rate_curve(draft, {})
    assert isinstance(curve, PlotCurve) and curve.title.endswith("up to 0.003")
    assert draft.value("training") != Draft().value("training")


def test_the_plot_of_the_rate_counts_epochs_by_the_images():
    draft = Draft()
    draft.set("training.steps", "7 epochs")
    assert rate_curve(draft, {}).ends[1] == "last step"
    assert rate_curve(draft, {"7 epochs": 42}).ends[1] == "step 42"


def test_the_title_of_the_rate_plot_names_its_quantity():
    draft = Draft()
    for kind, title in (
        ("adamw", "Learning rate over the run, up to 0.004"),
        ("prodigy", "Factor on the learning rate that Prodigy finds, over the run, up to 0.004"),
    ):
        draft.set("optimizer.kind", kind)
        assert rate_title(draft, 0.004) == title


def test_an_area_is_smooth_and_full_below_its_line():
    colors = ("#000000", "#0000ff", "#ff0000")
    line = [(0.0, 9.0), (20.0, 1.0)]
    rows = area(20, 10, line, thickness=2, foot=10, colors=colors)
    assert rows[0][0] == "#000000"
    assert rows[9][18] == "#0000ff"
    assert rows[5][10] > "#d00000"
    # Where it goes up by less than a pixel there are shades between ground and line.
    shades = {row[x] for row in rows for x in range(20)} - set(colors)
    assert len(shades) > 5


def test_a_jump_of_a_curve_is_plotted_from_end_to_end():
    colors = ("#000000", "#0000ff", "#ff0000")
    line = [(0.0, 2.0), (10.0, 2.0), (10.0, 8.0), (20.0, 8.0)]
    rows = area(20, 10, line, thickness=2, foot=10, colors=colors)
    assert {row[10] for row in rows[2:8]} == {"#ff0000"}


def test_the_most_frequent_noise_is_as_high_as_the_plot():
    assert density_bins(Uniform()) == pytest.approx([1.0] * 100)
    hill = density_bins(Beta(alpha=2.0, beta=5.0))
    # The mode of this distribution is (2 - 1) / (2 + 5 - 2).
    assert hill.index(1.0) == pytest.approx(20, abs=1)
    half = density_bins(Uniform(lowest=0.5))
    assert (half[:50], half[50:]) == ([0.0] * 50, pytest.approx([1.0] * 50))


def test_an_empty_range_has_no_plot():
    assert density_bins(Uniform(lowest=0.5, highest=0.5)) == []


def test_every_variant_has_a_plot_with_errors_elsewhere():
    draft = Draft()
    draft.set("training.batch_size", "none")
    for section, curve_of in (
        ("schedule", lambda config: [y for _, y in rate_points(config.schedule, steps=1000)]),
        ("objective.timesteps", lambda config: density_bins(config.objective.timesteps)),
    ):
        for kind in setting_at(f"{section}.kind").choices:
            if kind == "custom":  # code of the user's own, which the window does not run
                continue
            draft.set(f"{section}.kind", kind)
            heights = curve_of(draft.section_alone(section))
            assert max(heights) == pytest.approx(1, abs=0.02), kind
            assert min(heights) >= 0, kind


def test_the_weight_of_each_noise_level_is_plotted_for_what_the_model_predicts():
    draft = Draft()
    for kind in setting_at("objective.weighting.kind").choices:
        draft.set("objective.weighting.kind", kind)
        for prediction, zero_snr in (("auto", "auto"), ("v_prediction", "on")):
            draft.set("model.prediction", prediction)
            draft.set("model.zero_terminal_snr", zero_snr)
            heights = [height for _, height in weight_curve(draft).points]
            assert min(heights) >= 0 and max(heights) == pytest.approx(1), kind
    title = "How much each noise level counts where the model predicts velocity, under zero"
    assert weight_curve(draft).title.startswith(title)


def test_a_section_that_is_wrong_has_none():
    draft = Draft()
    draft.set("schedule.warmup_steps", "many")
    assert draft.section_alone("schedule") is None
    assert draft.section_alone("objective.timesteps") is not None
