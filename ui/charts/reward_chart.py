"""Reward chart: mean and spread of each training step, and the evaluations with their band.

Both are the weighted sum of the trained rewards and share a scale, so the gap between the lines is
what only the training prompts gain.
"""

import math
import tkinter as tk
from dataclasses import dataclass
from typing import Literal

from onetrainer.run.events import Evaluated
from ui.charts.axes import Frame
from ui.charts.hover_label import draw_hover_label
from ui.charts.validation_panel import tick_labels
from ui.progress.curve import Point, smooth, thin, ticks
from ui.progress.rewards import Rewards, format_score, with_band
from ui.theme.palette import Palette
from ui.widgets.widgets import Kit

_LEFT, _TOP, _RIGHT, _BOTTOM = 52, 26, 16, 28
_TICK_GAP_X, _TICK_GAP_Y = 90, 20
_LOW_FRACTION, _HIGH_FRACTION = 0.01, 0.99
_PAD_FRACTION = 0.08
_LINE, _DOT, _NEAREST = 2, 3, 18
# Dots closer together than this overlap and are left out.
_DOT_GAP = 7
_MIN_HEIGHT = 170


@dataclass(frozen=True)
class _Smoothed:
    """Smoothed rewards. spreads: half the height of the band around them."""

    points: list[Point]
    means: list[float]
    spreads: list[float]


class RewardChart:
    """Chart of the training and evaluation reward; values are shown at the pointer."""

    def __init__(self, kit: Kit, parent: tk.Misc) -> None:
        self._kit = kit
        self.canvas = tk.Canvas(parent, highlightthickness=0, borderwidth=0, takefocus=0)
        kit.theme.paint(self.canvas, bg="card")
        kit.name(self.canvas, "reward chart")
        self.canvas.configure(width=200, height=kit.px(_MIN_HEIGHT))
        self._rewards = Rewards()
        self._smoothed = _Smoothed([], [], [])
        self._frame: Frame | None = None
        self._pointer: int | None = None
        self.strength = 0.6  # suits 20 to 60 steps; more would lag behind
        self.canvas.bind("<Configure>", lambda _: self.draw())
        self.canvas.bind("<Motion>", self._pointer_moved)
        self.canvas.bind("<Leave>", self._pointer_left)
        self.canvas.bind("<<ThemeChanged>>", lambda _: self.draw())

    def show(self, rewards: Rewards) -> None:
        """Draw the rewards of a run."""
        self._rewards = rewards
        self.draw()

    def draw(self) -> None:
        """Redraw in the current size and colors."""
        canvas, px = self.canvas, self._kit.px
        canvas.delete("all")
        width, height = canvas.winfo_width(), canvas.winfo_height()
        columns = width - px(_LEFT + _RIGHT)
        self._frame = None
        if columns < px(60) or height < px(80):
            return
        self._smoothed = self._thinned(max(40, columns // 2))
        evaluations = _finite(self._rewards.evaluations)
        if not self._smoothed.points and not evaluations:
            self._draw_placeholder(width, height)
            return
        self._frame = frame = self._fit(width, height, evaluations)
        self._draw_grid(frame)
        self._draw_spread(frame)
        self._draw_band(evaluations, frame)
        self._draw_base(evaluations, frame)
        self._draw_steps(frame)
        self._draw_evaluations(evaluations, frame)
        self._draw_legend(evaluations, frame)
        self._draw_pointer(frame)

    def _thinned(self, most: int) -> _Smoothed:
        points = thin(self._rewards.scores.points(), most)
        spreads = thin(self._rewards.spreads.points(), most)
        return _Smoothed(points, smooth(points, self.strength), smooth(spreads, self.strength))

    def _fit(self, width: int, height: int, evaluations: list[Evaluated]) -> Frame:
        px, smoothed = self._kit.px, self._smoothed
        values = sorted(point.mean for point in smoothed.points)
        # A few outliers must not flatten the rest.
        ends = values[int(_LOW_FRACTION * len(values)) : math.ceil(_HIGH_FRACTION * len(values))]
        for mean, spread in zip(smoothed.means, smoothed.spreads, strict=True):
            ends += [mean - spread, mean + spread]
        for evaluation in evaluations:
            ends += [
                evaluation.reward - _half_band(evaluation),
                evaluation.reward + _half_band(evaluation),
            ]
        low, high = min(ends), max(ends)
        pad = (high - low) * _PAD_FRACTION or abs(high) * 0.05 or 1e-3
        steps = [point.step for point in smoothed.points] + [
            evaluation.step for evaluation in evaluations
        ]
        return Frame(
            px(_LEFT),
            px(_TOP),
            width - px(_RIGHT),
            height - px(_BOTTOM),
            0,
            max(2, *steps),
            low - pad,
            high + pad,
        )

    def _draw_grid(self, frame: Frame) -> None:
        palette, px = self._kit.theme.palette, self._kit.px
        values = ticks(
            frame.lowest, frame.highest, max(3, int((frame.bottom - frame.top) / px(_TICK_GAP_Y)))
        )
        for value, text in zip(values, tick_labels(values), strict=True):
            y = frame.y(value)
            self.canvas.create_line(frame.left, y, frame.right, y, fill=palette.line)
            self._draw_text(frame.left - px(8), y, text, "e", palette.dim)
        columns = max(2, int((frame.right - frame.left) / px(_TICK_GAP_X)))
        for step in ticks(frame.first_step, frame.last_step, columns):
            if step == int(step):
                x, y = frame.x(step), frame.bottom + px(6)
                self._draw_text(x, y, f"{int(step):,}", "n", palette.dim)

    def _draw_spread(self, frame: Frame) -> None:
        """Draw the spread over images around the smoothed line."""
        smoothed = self._smoothed
        if len(smoothed.points) < 2:
            return
        both = list(zip(smoothed.points, smoothed.means, smoothed.spreads, strict=True))
        upper = [(frame.x(point.step), frame.y(mean + half)) for point, mean, half in both]
        lower = [(frame.x(point.step), frame.y(mean - half)) for point, mean, half in both]
        color = self._kit.theme.palette.selected
        self.canvas.create_polygon(*upper, *reversed(lower), fill=color, outline="")

    def _draw_band(self, evaluations: list[Evaluated], frame: Frame) -> None:
        color = self._kit.theme.palette.validation_band
        if len(evaluations) == 1:
            x, half = frame.x(evaluations[0].step), self._kit.px(_DOT)
            top, bottom = _ends(evaluations[0], frame)
            self.canvas.create_rectangle(x - half, top, x + half, bottom, fill=color, outline="")
        elif evaluations:
            upper = [
                (frame.x(evaluation.step), _ends(evaluation, frame)[0])
                for evaluation in evaluations
            ]
            lower = [
                (frame.x(evaluation.step), _ends(evaluation, frame)[1])
                for evaluation in reversed(evaluations)
            ]
            self.canvas.create_polygon(*upper, *lower, fill=color, outline="")

    def _draw_base(self, evaluations: list[Evaluated], frame: Frame) -> None:
        """Draw a line at the reward of the base model."""
        if evaluations:
            y, palette = frame.y(evaluations[0].reward), self._kit.theme.palette
            self.canvas.create_line(frame.left, y, frame.right, y, fill=palette.border, dash=(2, 4))

    def _draw_steps(self, frame: Frame) -> None:
        palette, px, smoothed = self._kit.theme.palette, self._kit.px, self._smoothed
        raw = [(frame.x(point.step), frame.y(point.mean)) for point in smoothed.points]
        if len(raw) == 1:
            self._dot(*raw[0], px(_DOT), palette.accent)
        if len(raw) < 2:
            return
        line = [(x, frame.y(mean)) for (x, _), mean in zip(raw, smoothed.means, strict=True)]
        self.canvas.create_line(*raw, fill=palette.plot, joinstyle="bevel")
        self.canvas.create_line(*line, fill=palette.accent, width=px(_LINE), joinstyle="round")

    def _draw_evaluations(self, evaluations: list[Evaluated], frame: Frame) -> None:
        """Draw the evaluation line, a ring around the best one, and the warnings of the guard."""
        palette, px = self._kit.theme.palette, self._kit.px
        points = [
            (frame.x(evaluation.step), frame.y(evaluation.reward)) for evaluation in evaluations
        ]
        if len(points) > 1:
            self.canvas.create_line(
                *points, fill=palette.validation, width=px(_LINE), joinstyle="round"
            )
        is_dense = len(points) > 1 and (points[-1][0] - points[0][0]) / len(points) < px(_DOT_GAP)
        best = self._rewards.best
        for evaluation, (x, y) in zip(evaluations, points, strict=True):
            if evaluation.verdict == "hacking":
                self._diamond(x, y, palette)
            elif not is_dense:
                self._dot(x, y, px(_DOT), palette.validation)
            if best is not None and evaluation.step == best.step and len(evaluations) > 1:
                size = px(_DOT + 3)
                self.canvas.create_oval(
                    x - size, y - size, x + size, y + size, outline=palette.good, width=px(2)
                )

    def _draw_legend(self, evaluations: list[Evaluated], frame: Frame) -> None:
        palette, px = self._kit.theme.palette, self._kit.px
        parts = []
        if self._smoothed.points:
            parts.append(("▬ each step ± spread", palette.accent))
        if evaluations:
            parts.append(("● validation, 95 % band", palette.validation))
        if len(evaluations) > 1:
            parts.append(("○ best", palette.good))
        if any(evaluation.verdict == "hacking" for evaluation in evaluations):
            parts.append(("◆ guard", palette.warning))
        x: float = px(2)
        for text, color in parts:
            made = self._draw_text(x, frame.top - px(8), text, "sw", color)
            x = self.canvas.bbox(made)[2] + px(12)
            if x - px(12) > self.canvas.winfo_width():
                self.canvas.delete(made)

    def _draw_pointer(self, frame: Frame) -> None:
        self.canvas.delete("pointer")
        if self._pointer is None or not frame.left <= self._pointer <= frame.right:
            return
        palette, px, smoothed = self._kit.theme.palette, self._kit.px, self._smoothed
        text = []
        x = float(self._pointer)
        if smoothed.points:
            columns = [abs(frame.x(point.step) - self._pointer) for point in smoothed.points]
            index = columns.index(min(columns))
            point, mean, spread = (
                smoothed.points[index],
                smoothed.means[index],
                smoothed.spreads[index],
            )
            x = frame.x(point.step)
            smoothed_text = f"smoothed {format_score(mean)} ± {spread:.2g}"
            text.append(
                f"step {point.step:,}   reward {format_score(point.mean)}   {smoothed_text}"
            )
            self._dot(x, frame.y(mean), px(4), palette.accent, tags="pointer")
        evaluations = _finite(self._rewards.evaluations)
        evaluation = min(
            evaluations, key=lambda evaluation: abs(frame.x(evaluation.step) - x), default=None
        )
        if evaluation is not None and abs(frame.x(evaluation.step) - self._pointer) <= px(_NEAREST):
            reward = with_band(evaluation.reward, evaluation.error)
            text.append(f"step {evaluation.step:,}   validation {reward}")
            at = frame.x(evaluation.step), frame.y(evaluation.reward)
            self._dot(*at, px(_DOT + 2), palette.validation, tags="pointer")
        if text:
            self.canvas.create_line(
                x, frame.top, x, frame.bottom, fill=palette.border, tags="pointer"
            )
            draw_hover_label(self._kit, self.canvas, frame, x, "\n".join(text))

    def _dot(self, x: float, y: float, size: int, color: str, *, tags: str = "") -> None:
        self.canvas.create_oval(
            x - size, y - size, x + size, y + size, fill=color, outline="", tags=tags
        )

    def _diamond(self, x: float, y: float, palette: Palette) -> None:
        size = self._kit.px(_DOT + 2)
        corners = (x - size, y, x, y - size, x + size, y, x, y + size)
        self.canvas.create_polygon(corners, fill=palette.warning, outline=palette.card)

    def _draw_text(
        self, x: float, y: float, text: str, anchor: Literal["e", "n", "sw"], color: str
    ) -> int:
        return self.canvas.create_text(
            x, y, text=text, anchor=anchor, font="OneTrainerSmall", fill=color
        )

    def _draw_placeholder(self, width: int, height: int) -> None:
        self.canvas.create_text(
            width // 2,
            height // 2,
            text="The reward appears here after the first step.",
            font="OneTrainerBody",
            fill=self._kit.theme.palette.dim,
        )

    def _pointer_moved(self, event: "tk.Event[tk.Canvas]") -> None:
        self._pointer = event.x
        if self._frame is not None:
            self._draw_pointer(self._frame)

    def _pointer_left(self, _: "tk.Event[tk.Canvas]") -> None:
        self._pointer = None
        self.canvas.delete("pointer")


def _finite(evaluations: list[Evaluated]) -> list[Evaluated]:
    return [evaluation for evaluation in evaluations if math.isfinite(evaluation.reward)]


def _half_band(evaluation: Evaluated) -> float:
    """Return half the width of the 95 % band; 0 if it is unknown."""
    return evaluation.error if math.isfinite(evaluation.error) else 0.0


def _ends(evaluation: Evaluated, frame: Frame) -> tuple[float, float]:
    """Return the upper and lower end of a band, at least one pixel apart."""
    top, bottom = (
        frame.y(evaluation.reward + _half_band(evaluation)),
        frame.y(evaluation.reward - _half_band(evaluation)),
    )
    return (top, bottom) if bottom - top >= 1 else (top - 0.5, bottom + 0.5)
