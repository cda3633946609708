"""The charts of memory and of validation images, measured on the canvas."""

import pytest

from onetrainer.run.events import Validated
from tests.ui.pumping import resize
from ui.charts.bar_table import BarRow, BarTable
from ui.charts.run_charts import LossChart
from ui.charts.stacked_bar import StackedBar
from ui.progress.curve import Curve
from ui.progress.validation import Validation
from ui.theme.palette import DARK, SERIES_COLORS

WIDTH, HEIGHT = 600, 320


def placed(root, canvas, height=HEIGHT):
    canvas.pack(fill="both", expand=True)
    resize(root, WIDTH, height)
    return canvas


def boxes(canvas, color):
    """The left, upper, right and lower edges of everything in a color."""
    items = canvas.find_all()
    return [canvas.coords(item) for item in items if canvas.itemcget(item, "fill") == color]


def curve():
    made = Curve()
    for step in range(1, 101):
        made.append(step, 0.5 - step / 1000)
    return made


def test_a_single_loss_is_drawn_also_where_its_mean_differs_by_rounding(widgets, root):
    chart = LossChart(widgets, root)
    placed(root, chart.canvas)
    for loss in (1.329616904258728, 0.1 + 0.2, 1e-13, 7.1):
        only = Curve()
        only.append(1, loss)
        chart.show(only, [], Validation())
        assert chart.canvas.find_all()


def validation(*losses):
    made = Validation()
    for place, loss in enumerate(losses):
        best = min(range(place + 1), key=lambda one: losses[one])
        known = {"error": 0.001, "images": 5, "is_best": best == place, "message": ""}
        made.add(Validated(place * 50, loss, best_step=best * 50, verdict="flat", **known))
    return made


def test_parts_of_a_stacked_bar_are_proportional_to_their_size(widgets, root):
    stack = StackedBar(widgets, root, has_legend=True)
    canvas = placed(root, stack.canvas)
    parts = [("unet", "UNet", 300), ("vae", "VAE", 100)]
    stack.show(parts, {"unet": 0, "vae": 1}, 800)
    unet, vae = (boxes(canvas, color)[0] for color in SERIES_COLORS["dark"][:2])
    # Of 800 bytes in all; a pixel is the seam.
    assert (unet[0], unet[2]) == (0, pytest.approx(WIDTH * 300 / 800 - 1))
    assert (vae[0], vae[2]) == (pytest.approx(WIDTH * 3 / 8), pytest.approx(WIDTH / 2 - 1))
    assert boxes(canvas, DARK["danger"]) == []  # it fits


def test_a_stacked_bar_marks_the_end_of_the_available_space(widgets, root):
    stack = StackedBar(widgets, root, has_legend=False)
    canvas = placed(root, stack.canvas)
    stack.show([("unet", "UNet", 1000)], {"unet": 0}, 750)
    (edge,) = boxes(canvas, DARK["danger"])
    assert edge[0] == pytest.approx(WIDTH * 0.75)


def test_bars_of_a_table_are_proportional_to_their_fractions(widgets, root):
    table = BarTable(widgets, root, color="validation")
    canvas = placed(root, table.canvas)
    table.show([BarRow("a", 1.0, "0.4"), BarRow("b", 0.25, "0.1"), BarRow("c", 0.0, "0.0")])
    first, second = boxes(canvas, DARK["validation"])
    full = first[2] - first[0]
    assert second[2] - second[0] == pytest.approx(full / 4, abs=1)


def test_a_long_name_is_cut_and_leaves_room_for_its_bar(widgets, root):
    table = BarTable(widgets, root, color="validation")
    canvas = placed(root, table.canvas)
    table.show([BarRow("a very long name of a folder " * 5, 1.0, "0.4")])
    words = [canvas.itemcget(item, "text") for item in canvas.find_all() if _is_text(canvas, item)]
    assert words[0].startswith("a very long") and words[0].endswith("…")
    assert boxes(canvas, DARK["validation"])


def test_validation_images_have_a_panel_with_a_scale_of_their_own(widgets, root):
    chart = LossChart(widgets, root)
    canvas = placed(root, chart.canvas)
    chart.show(curve(), [], validation(0.1438, 0.1402, 0.1411))
    (line,) = boxes(canvas, DARK["accent"])
    found = boxes(canvas, DARK["validation"])
    dots = [box for box in found if len(box) == 4]
    assert len(dots) == 3
    assert min(box[1] for box in dots) > max(line[1::2])
    # Of the whole panel, although the losses differ by hundredths of what training's do.
    assert max(box[3] for box in dots) - min(box[1] for box in dots) > HEIGHT / 8
    assert dots[1][1] > dots[2][1] > dots[0][1]


def test_the_lowest_one_has_a_ring(widgets, root):
    chart = LossChart(widgets, root)
    canvas = placed(root, chart.canvas)
    chart.show(curve(), [], validation(0.1438, 0.1402, 0.1411))
    rings = [i for i in canvas.find_all() if canvas.type(i) == "oval" and _outline(canvas, i)]
    dots = [box for box in boxes(canvas, DARK["validation"]) if len(box) == 4]
    (ring,) = (canvas.coords(item) for item in rings)
    assert (ring[0] + ring[2]) / 2 == pytest.approx((dots[1][0] + dots[1][2]) / 2)
    assert (ring[1] + ring[3]) / 2 == pytest.approx((dots[1][1] + dots[1][3]) / 2)


def test_both_panels_have_the_same_steps(widgets, root):
    chart = LossChart(widgets, root)
    canvas = placed(root, chart.canvas)
    chart.show(curve(), [50], validation(0.1438, 0.1402, 0.1411))
    dots = [box for box in boxes(canvas, DARK["validation"]) if len(box) == 4]
    (mark,) = (box for box in boxes(canvas, DARK["good"]) if len(box) == 6)
    assert mark[2] == pytest.approx((dots[1][0] + dots[1][2]) / 2)


def test_a_low_chart_shows_the_loss_of_training_alone(widgets, root):
    chart = LossChart(widgets, root)
    canvas = placed(root, chart.canvas, height=120)
    chart.show(curve(), [], validation(0.1438, 0.1402))
    assert boxes(canvas, DARK["validation"]) == []
    assert boxes(canvas, DARK["accent"])


def test_no_label_of_an_axis_is_cut(widgets, root):
    widgets.theme.rescale(2.0)
    chart = LossChart(widgets, root)
    canvas = placed(root, chart.canvas)
    made = Curve()
    for step in range(1, 1_000_001, 20_000):
        made.append(step, 1e-5 + step * 1e-13)
    chart.show(made, [], validation())
    texts = [canvas.bbox(item) for item in canvas.find_all() if canvas.type(item) == "text"]
    assert len(texts) > 4
    assert min(left for left, *_ in texts) >= 0
    assert max(right for _, __, right, ___ in texts) <= WIDTH


def _is_text(canvas, item):
    return canvas.type(item) == "text"


def _outline(canvas, item):
    return canvas.itemcget(item, "outline") == DARK["good"]
