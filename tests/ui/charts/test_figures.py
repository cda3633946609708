"""The charts of a run: what is seen of their lines, their scales, and the image of them."""

import itertools
import math

import numpy as np
import pytest
from PIL import Image

from onetrainer.run.events import Checkpoint, Measured, Progress, Sample, Validated
from tests.close import FLOAT64, near
from ui.charts.figure_charts import FigureCharts, draw_figures
from ui.charts.figure_kinds import chart_data
from ui.charts.figure_panels import Look, clip, columns_for, figure_panels
from ui.charts.picture import Picture, dashes
from ui.progress.run_state import RunState
from ui.theme.palette import DARK

BOX = (0, 0, 900, 500)


def run_of(steps, *, rate=1e-4, start=1):
    state = RunState()
    for step in range(start, start + steps):
        loss = 2.0**-step if steps < 30 else 0.1 + 0.2 * math.exp(-step / 100)
        state.apply(
            Progress(step, steps, 0, loss, rate, 2.0, 9.0, 1 << 30, gradient_norm=1.0 + step % 3)
        )
        if step % 100 == 0:
            state.apply(Measured(step, 4, 3 << 30, learning_rates={"unet": rate, "te": rate / 2}))
            state.apply(Sample(step, 0, "a.png", "cat", 1))
            state.apply(Checkpoint(step, "checkpoints/a"))
            state.apply(Validated(step, 0.2, 0.01, 9, step, True, "first", ""))
    return state


def panels_of(*states, **look):
    data = chart_data([(f"run {at}", state) for at, state in enumerate(states)], 0.9)
    panels = figure_panels(data, Look(**look), BOX, round)
    return {panel.legend[0][0]: panel for panel in panels}


def test_a_part_of_a_line_ends_where_it_crosses_the_edges():
    line = [(0, 0.0), (10, 5.0), (20, -5.0), (30, 7.0)]
    for first, last in ((3, 27), (-5, 99), (10, 20), (11, 12), (31, 40)):
        part = clip(line, first, last)
        steps = [step for step, _ in part]
        inside = [step for step, _ in line if first <= step <= last]
        expected = sorted({*inside, *(at for at in (first, last) if 0 <= at <= 30)})
        assert steps == expected, (first, last)
        of_line = np.interp(steps, *zip(*line, strict=True)) if steps else []
        assert [value for _, value in part] == pytest.approx(list(of_line))


def test_a_run_has_the_charts_of_what_it_reports_with_marks_and_groups():
    panels = panels_of(run_of(400))
    assert list(panels) == [
        *("Loss", "Validation loss", "Gradient norm", "Learning rate", "Memory in GB"),
        *("Steps per second", "Images per second"),
    ]
    loss = panels["Loss"]
    assert [text for text, _ in loss.legend] == ["Loss", "∆ samples", "| checkpoints"]
    assert [mark.step for mark in loss.marks] == [100, 200, 300, 400] * 2
    assert [text for text, _ in panels["Learning rate"].legend] == ["Learning rate", "unet", "te"]
    assert panels["Images per second"].lines[0].points[-1] == (400, 8.0)
    assert list(panels_of(run_of(9))) == [
        *("Loss", "Gradient norm", "Learning rate", "Memory in GB", "Steps per second"),
    ]


def test_zooming_shows_the_same_values_on_another_scale():
    whole, part = panels_of(run_of(400))["Loss"], panels_of(run_of(400), span=(300, 400))["Loss"]
    assert part.frame.first_step == 300 and part.lines[-1].points[0][0] == 300
    assert part.frame.highest < whole.frame.highest / 1.5
    smoothed = dict(whole.lines[-1].points)
    shared = [(step, value) for step, value in part.lines[-1].points if step in smoothed]
    assert len(shared) > 20
    assert [value for _, value in shared] == pytest.approx([smoothed[s] for s, _ in shared], 0.02)
    assert all(300 <= step <= 400 for line in part.lines for step, _ in line.points)


def test_a_log_scale_makes_halving_a_straight_line():
    panel = panels_of(run_of(20), is_log=True)["Loss"]
    heights = [panel.frame.y(2.0**-step) for step in range(2, 20)]
    assert np.diff(heights) == near(np.diff(heights).mean(), eps=FLOAT64)
    assert all(value > 0 for value in panel.frame.ticks(5)[0])


def test_several_runs_have_a_color_each_and_values_with_their_names():
    panels = panels_of(run_of(300), run_of(200, rate=3e-4))
    loss, rate = panels["Loss"], panels["Learning rate"]
    assert [line.color for line in loss.lines] == ["accent", "validation"]
    assert loss.frame.last_step == 300 and not loss.marks
    assert [line.label(0) for line in rate.lines] == [
        *("run 0  unet  0.0001", "run 0  te  5e-05"),
        *("run 1  unet  0.0003", "run 1  te  0.00015"),
    ]
    assert [line.color for line in rate.lines] == ["accent"] * 2 + ["validation"] * 2
    assert len({(line.color, line.dash) for line in rate.lines}) == 4


def test_columns_follow_the_width_and_rows_are_even():
    assert [columns_for(width, 9, round) for width in (250, 600, 950, 3000)] == [1, 2, 3, 3]
    assert columns_for(3000, 4, round) == 2  # not three and one


def test_dashes_have_their_lengths_around_corners():
    parts = dashes([(0, 0), (10, 0), (10, 10)], (4, 3))
    lengths = [sum(math.dist(a, b) for a, b in itertools.pairwise(part)) for part in parts]
    assert lengths == pytest.approx([4, 4, 4])
    assert parts[1][0] == (7, 0) and parts[1][-1] == (10, 1)


def test_the_image_has_the_lines_where_the_panels_say(tmp_path):
    data = chart_data([("run", run_of(400))], 0.0)
    picture = Picture(BOX[2:], DARK, margin=10)
    panels = draw_figures(picture, data, Look(only="Memory in GB"), *BOX[2:])
    picture.save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == ((900 + 20) * 2, (500 + 20) * 2)
        frame = panels[0].frame
        at = ((frame.left + frame.right) / 2, frame.y(3.0))
        red, green, blue = image.getpixel(tuple(round((side + 10) * 2) for side in at))[:3]
    wanted = [int(DARK["accent"][at : at + 2], 16) for at in (1, 3, 5)]
    assert (red, green, blue) == pytest.approx(wanted, abs=8)


def test_keys_and_wheel_zoom_move_and_read_the_charts(root, widgets):
    charts = FigureCharts(widgets, root, name="charts")
    root.geometry("900x500")
    charts.canvas.pack(fill="both", expand=True)
    charts.show([("run", run_of(400))])
    root.update()
    charts.canvas.focus_force()
    root.update()
    charts.canvas.event_generate("<Left>")
    assert charts.values[0] == f"{charts.data.charted[0].lines[0].series.points[-1].mean:.4g}"
    charts.canvas.event_generate("<plus>")
    first, last = charts.look.span
    assert last == 400 and last - first == pytest.approx(400 / 1.25, rel=0.01)
    charts.canvas.event_generate("<Shift-Left>")
    assert charts.look.span[1] < 400
    charts.canvas.event_generate("<Down>")
    charts.canvas.event_generate("<Return>")
    assert charts.titles == ["Validation loss"]
    charts.canvas.event_generate("<Return>")
    charts.canvas.event_generate("<Key-0>")
    assert charts.look.span is None and len(charts.titles) == 7
    frame = charts._panels[0].frame
    middle = {"y": round(frame.top + 20)}
    charts.canvas.event_generate("<ButtonPress-1>", x=round(frame.x(100)), **middle)
    charts.canvas.event_generate("<B1-Motion>", x=round(frame.x(200)), **middle)
    charts.canvas.event_generate("<ButtonRelease-1>", x=round(frame.x(200)), **middle)
    assert charts.look.span == pytest.approx((100, 200), abs=400 / (frame.right - frame.left))
