"""Coordinates of chart values on a canvas. No Tk."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """Plot area in pixels, with the steps and values at its edges."""

    left: float
    top: float
    right: float
    bottom: float
    first_step: float
    last_step: float
    lowest: float
    highest: float
    is_log: bool = False

    def x(self, step: float) -> float:
        """Return the x coordinate of a step."""
        span = max(1.0, self.last_step - self.first_step)
        return self.left + (step - self.first_step) / span * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value, clamped to the plot area."""
        low, high = self._scaled(self.lowest), self._scaled(self.highest)
        fraction = (self._scaled(value) - low) / ((high - low) or 1.0)
        return self.bottom - min(1.0, max(0.0, fraction)) * (self.bottom - self.top)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.is_log else value
