"""Plot of how often each noise level is trained."""

import tkinter as tk

from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.timesteps import Timesteps
from onetrainer.schedules.timestep_density import density
from ui.context import Context
from ui.pages.settings.small_plot import SmallPlot

SECTION = "objective.timesteps"
_WIDTH = 360
_STEPS = 1000
_BIN = 10
_TITLE = "How often each noise level is trained"
_ENDS = ("low noise: fine detail", "pure noise: composition")


class NoisePlot:
    """Plot of the timestep density; a message replaces it while the settings are wrong."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._plot = SmallPlot(context.kit, parent, name="plot of the noise", width=_WIDTH)
        self.widget = self._plot.widget
        self._drawn: tuple[object, ...] = ()

    def draw(self) -> None:
        """Draw the current draft, unless it is drawn already."""
        draft, mode = self._context.draft, self._context.kit.theme.mode
        value = draft.value(SECTION)
        wanted = (str(value), mode)
        if wanted == self._drawn:
            return
        self._drawn = wanted
        config = draft.section_alone(SECTION)
        objective = config.objective if config is not None else None
        heights = density_bins(objective.timesteps) if isinstance(objective, Denoising) else []
        if heights:
            last = len(heights) - 1
            curve = [(index / last, height) for index, height in enumerate(heights)]
            self._plot.show(_TITLE, curve, _ENDS)
        else:
            self._plot.explain("Fix the numbers to see how often each noise level is trained.")


def density_bins(timesteps: Timesteps) -> list[float]:
    """Return how often timesteps are sampled, in bins of ten, relative to the highest bin.

    Ordered from low noise to pure noise; [] where there are no timesteps to sample.
    """
    try:
        shares = density(timesteps, _STEPS)
    except ValueError:  # an empty range, which the form reports at the setting
        return []
    bins = [sum(shares[start : start + _BIN]) for start in range(0, _STEPS, _BIN)]
    highest = max(bins)
    return [share / highest for share in bins]
