"""Curves of several runs over each other: loss, validation loss and reward, a panel each."""

import math
import tkinter as tk
from collections.abc import Callable, Sequence

from ui.charts.chart import Chart
from ui.charts.panel import Frame, Line, Panel, padded_range
from ui.progress.curve import Curve, smooth, thin
from ui.progress.run_state import RunState
from ui.theme.palette import Role
from ui.widgets.widgets import Widgets

_LEFT, _RIGHT, _TOP, _BOTTOM, _BETWEEN = 56, 16, 24, 30, 34
_MIN_HEIGHT = 240
_STRENGTH = 0.9
# Runs after these have their colors again, in dashes.
_ROLES: tuple[Role, ...] = ("accent", "validation", "good", "danger", "warning", "dim")
_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 3))

Points = Sequence[tuple[float, float]]


class ComparedCurves:
    """Chart of several runs; place `canvas`."""

    def __init__(self, widgets: Widgets, parent: tk.Misc) -> None:
        self._widgets = widgets
        self._runs: Sequence[tuple[str, RunState]] = ()
        height = widgets.px(_MIN_HEIGHT)
        self._chart = Chart(widgets, parent, self._panels, name="comparison", height=height)
        self.canvas = self._chart.canvas

    def show(self, runs: Sequence[tuple[str, RunState]]) -> None:
        """Draw the curves of runs with their names."""
        self._runs = runs
        self._chart.draw()

    def _panels(self, width: int, height: int) -> list[Panel]:
        px = self._widgets.px
        most = max(40, (width - px(_LEFT + _RIGHT)) // 2)
        kinds: tuple[tuple[str, Callable[[RunState], Points]], ...] = (
            ("loss, smoothed", lambda run: _smoothed(run.curve, most)),
            ("validation loss", lambda run: [(e.step, e.loss) for e in run.validation.events]),
            ("reward, smoothed", lambda run: _smoothed(run.rewards.scores, most)),
        )
        found = {
            name: [_finite(points_of(run)) for _, run in self._runs] for name, points_of in kinds
        }
        found = {name: curves for name, curves in found.items() if any(curves)}
        steps = [step for curves in found.values() for points in curves for step, _ in points]
        if not steps:
            return []
        room = height - px(_TOP + _BOTTOM) - px(_BETWEEN) * (len(found) - 1)
        each = room / len(found)
        panels = []
        for index, (name, curves) in enumerate(found.items()):
            top = px(_TOP) + index * (each + px(_BETWEEN))
            sides = (px(_LEFT), top, width - px(_RIGHT), top + each)
            values = padded_range([value for points in curves for _, value in points], 0.06)
            frame = Frame(*sides, min(steps), max(2, *steps), *values)
            lines = tuple(self._line(at, name, points) for at, points in enumerate(curves))
            panels.append(Panel(frame, lines, legend=self._legend(name), legend_left=frame.left))
        return panels

    def _line(self, at: int, what: str, points: Points) -> Line:
        name = self._runs[at][0]

        def label(index: int) -> str:
            step, value = points[index]
            return f"{name}   step {step:,.0f}   {value:.4g}"

        is_sparse = what.startswith("validation")
        return Line(
            points, role_of(at), dash=_dash(at), dots="all" if is_sparse else "none", label=label
        )

    def _legend(self, what: str) -> tuple[tuple[str, Role], ...]:
        names = (
            (f"{'- -' if _dash(at) else '—'} {name}", role_of(at))
            for at, (name, _) in enumerate(self._runs)
        )
        return ((what, "dim"), *names)


def role_of(index: int) -> Role:
    """Return the color of a run by its place among those compared."""
    return _ROLES[index % len(_ROLES)]


def _dash(index: int) -> tuple[int, ...]:
    return _DASHES[index // len(_ROLES) % len(_DASHES)]


def _smoothed(curve: Curve, most: int) -> Points:
    points = thin(curve.points(), most)
    means = smooth(points, _STRENGTH)
    return [(point.step, mean) for point, mean in zip(points, means, strict=True)]


def _finite(points: Points) -> Points:
    return [(step, value) for step, value in points if math.isfinite(value)]
