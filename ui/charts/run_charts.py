"""The charts of a run: its loss with the validation loss below it, and its reward."""

import math
import tkinter as tk
from collections.abc import Callable, Sequence
from dataclasses import replace

from onetrainer.run.events import Evaluated, Validated
from ui.charts.chart import Chart
from ui.charts.panel import Frame, Line, Mark, Panel, padded_range
from ui.progress.curve import Curve, Point, smooth, thin
from ui.progress.rewards import Rewards, format_score
from ui.progress.rewards import with_band as score_text
from ui.progress.validation import Validation, with_band
from ui.theme.palette import Role
from ui.widgets.widgets import Widgets

_LEFT, _RIGHT = 56, 16
_LOW_FRACTION, _HIGH_FRACTION = 0.01, 0.99
_NEAREST = 18
_NEAR_START = 0.05
# Fraction of the height that the validation loss takes, and the minimum height for it.
_PANEL_FRACTION, _PANEL_FROM = 0.46, 150
_BETWEEN = 28
# Below this height a chart is unreadable and the page scrolls.
_MIN_HEIGHT, _MIN_OF_TWO = 160, 172


class LossChart:
    """Chart of the training loss: raw values as a band, the smoothed loss as a line.

    The validation loss has its own panel below, with the same steps and its own scale, because its
    changes are about a hundredth of the differences between training steps.
    """

    def __init__(self, widgets: Widgets, parent: tk.Misc) -> None:
        self._widgets = widgets
        height = widgets.px(_MIN_HEIGHT)
        self._chart = Chart(widgets, parent, self._panels, name="loss", height=height)
        self.canvas, self.draw = self._chart.canvas, self._chart.draw
        self._curve, self._validation = Curve(), Validation()
        self._marks: list[int] = []
        self.strength = 0.9
        self.is_log = False

    def show(self, curve: Curve, marks: list[int], validation: Validation) -> None:
        """Draw a curve. marks: steps at which samples were generated."""
        self._curve, self._marks, self._validation = curve, marks, validation
        least = _MIN_OF_TWO if validation.events else _MIN_HEIGHT
        self.canvas.configure(height=self._widgets.px(least))
        self.draw()

    def _panels(self, width: int, height: int) -> list[Panel]:
        px = self._widgets.px
        points = thin(self._curve.points(), max(40, (width - px(_LEFT + _RIGHT)) // 2))
        if not points:
            return []
        means = smooth(points, self.strength)
        first, last = points[0].step, points[-1].step
        sides = (px(_LEFT), px(14), width - px(_RIGHT), height - px(30))
        start = first if first > _NEAR_START * last else 0
        frame = Frame(*sides, start, max(last, 2), *self._range(points, means), self.is_log)
        events = [event for event in self._validation.events if math.isfinite(event.loss)]
        below = []
        if events and height >= px(_PANEL_FROM):
            ends = [frame.first_step, frame.last_step, events[0].step, events[-1].step]
            frame = replace(frame, first_step=min(ends), last_step=max(ends))
            edge = frame.bottom - (frame.bottom - frame.top) * _PANEL_FRACTION
            lower = replace(frame, top=edge + px(_BETWEEN) / 2, is_log=False)
            frame = replace(frame, bottom=edge - px(_BETWEEN) / 2)
            below = [self._validation_panel(lower, events)]
        raw = [(point.step, end) for point in points for end in (point.lowest, point.highest)]

        def label(index: int) -> str:
            point, mean = points[index], means[index]
            return f"step {point.step:,}   loss {point.mean:.4g}   smoothed {mean:.4g}"

        samples = (step for step in self._marks if frame.first_step <= step <= frame.last_step)
        marks = tuple(Mark(step, 0.0, "triangle") for step in samples)
        lines = (
            Line(raw if len(points) > 1 else [], "plot", width=1),
            Line(_by_step(points, means), "accent", label=label),
        )
        return [Panel(frame, lines, marks, row_gap=44), *below]

    def _range(self, points: list[Point], means: list[float]) -> tuple[float, float]:
        """Return the lowest and highest loss to show."""
        lows = sorted(point.lowest for point in points)
        highs = sorted(point.highest for point in points)
        # A few outliers must not flatten the rest.
        low = lows[int(_LOW_FRACTION * (len(lows) - 1))]
        high = max(highs[math.ceil(_HIGH_FRACTION * (len(highs) - 1))], *means)
        if high - low <= 1e-9 * abs(high):  # a mean may differ from its only value by rounding
            low, high = low - abs(low) * 0.1 - 1e-6, high + abs(high) * 0.1 + 1e-6
        if self.is_log:
            return low, high
        pad = (high - low) * 0.06
        return max(0.0, low - pad) if low >= 0 else low - pad, high + pad

    def _validation_panel(self, frame: Frame, events: list[Validated]) -> Panel:
        """Return the panel of points, 95 % band and best step."""

        def label(index: int) -> str:
            one = events[index]
            return f"step {one.step:,}   validation {with_band(one.loss, one.error)}"

        line = evaluation_line([(one.step, one.loss, one.error) for one in events], label)
        raw = [(one.step, one.loss) for one in self._validation.without_ema]
        raw = [(step, loss) for step, loss in raw if math.isfinite(loss)]
        best, legend = self._validation.best, [("• validation, 95 % band", line.color)]
        marks = []
        if best is not None and len(events) > 1:
            marks = [Mark(best.step, best.loss, "ring")]
            legend.append(("o lowest", "good"))
        if raw:
            legend.append(("- - without EMA", "dim"))
        low, high = padded_range([*line.ends(), *(loss for _, loss in raw)], 0.12)
        return Panel(
            replace(frame, lowest=low, highest=high),
            (Line(raw, "dim", width=1, dash=(4, 3)), line),
            tuple(marks),
            legend=tuple(legend),
            legend_left=frame.left,
        )


class RewardChart:
    """Chart of the reward: mean and spread of each training step, and the evaluations' band.

    Both are the weighted sum of the trained rewards and share a scale, so the gap between the lines
    is what only the training prompts gain.
    """

    def __init__(self, widgets: Widgets, parent: tk.Misc) -> None:
        self._widgets = widgets
        height = widgets.px(170)
        self._chart = Chart(widgets, parent, self._panels, name="reward", height=height)
        self.canvas, self.draw = self._chart.canvas, self._chart.draw
        self._rewards = Rewards()
        self.strength = 0.6  # suits 20 to 60 steps; more would lag behind

    def show(self, rewards: Rewards) -> None:
        """Draw the rewards of a run."""
        self._rewards = rewards
        self.draw()

    def _panels(self, width: int, height: int) -> list[Panel]:
        px, rewards = self._widgets.px, self._rewards
        most = max(40, (width - px(_LEFT + _RIGHT)) // 2)
        events = [event for event in rewards.evaluations if math.isfinite(event.reward)]
        points = thin(rewards.scores.points(), most)
        if not points and not events:
            return []
        means = smooth(points, self.strength)
        spreads = smooth(thin(rewards.spreads.points(), most), self.strength)

        def label(index: int) -> str:
            point = points[index]
            smoothed = f"smoothed {format_score(means[index])} ± {spreads[index]:.2g}"
            return f"step {point.step:,}   reward {format_score(point.mean)}   {smoothed}"

        def event_label(index: int) -> str:
            event = events[index]
            return f"step {event.step:,}   validation {score_text(event.reward, event.error)}"

        raw = Line([(point.step, point.mean) for point in points], "plot", width=1)
        smoothed = Line(
            _by_step(points, means),
            "accent",
            halves=spreads,
            band_color="selected",
            label=label,
        )
        evaluated = evaluation_line(
            [(event.step, event.reward, event.error) for event in events], event_label
        )
        # A few outliers must not flatten the rest.
        ends = sorted(value for _, value in raw.points)
        ends = ends[int(_LOW_FRACTION * len(ends)) : math.ceil(_HIGH_FRACTION * len(ends))]
        steps = [point.step for point in points] + [event.step for event in events]
        sides = (px(_LEFT), px(26), width - px(_RIGHT), height - px(28))
        values = [*ends, *smoothed.ends(), *evaluated.ends()]
        frame = Frame(*sides, 0, max(2, *steps), *padded_range(values, 0.08))
        marks, legend = self._marks(events)
        if points:
            legend.insert(0, ("— each step ± spread", "accent"))
        base = events[0].reward if events else None
        lines = (raw, smoothed, evaluated)
        return [Panel(frame, lines, marks, base, tuple(legend), px(2), row_gap=20)]

    def _marks(self, events: list[Evaluated]) -> tuple[tuple[Mark, ...], list[tuple[str, Role]]]:
        """Return a ring around the best evaluation and the warnings of the guard, with a legend."""
        best = self._rewards.best
        legend: list[tuple[str, Role]] = []
        if events:
            legend.append(("• validation, 95 % band", "validation"))
        hacked = (event for event in events if event.verdict == "hacking")
        marks = [Mark(event.step, event.reward, "diamond") for event in hacked]
        if len(events) > 1:
            legend.append(("o best", "good"))
        if marks:
            legend.append(("◊ guard", "warning"))
        if best is not None and best in events and len(events) > 1:
            marks.append(Mark(best.step, best.reward, "ring"))
        return tuple(marks), legend


def _by_step(points: list[Point], means: list[float]) -> list[tuple[float, float]]:
    return [(point.step, mean) for point, mean in zip(points, means, strict=True)]


def evaluation_line(
    values: Sequence[tuple[int, float, float]], label: Callable[[int], str]
) -> Line:
    """Return the line of evaluations with their 95 % band: step, value and half of the band."""
    return Line(
        [(step, value) for step, value, _ in values],
        "validation",
        halves=[half if math.isfinite(half) else 0.0 for _, _, half in values],
        dots="all",
        label=label,
        reach=_NEAREST,
    )
