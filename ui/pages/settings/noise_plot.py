"""Plot of how often each noise level is trained."""

from typing import TYPE_CHECKING

from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.timesteps import Timesteps
from ui.model.draft import Draft

if TYPE_CHECKING:
    from ui.pages.settings.small_plot import PlotCurve

SECTION = "objective.timesteps"
WIDTH = 360
_STEPS = 1000
_BIN = 10


def noise_curve(draft: Draft) -> "PlotCurve | str | None":
    """Return the timestep density, a message while the settings are wrong, or None before that."""
    if draft.is_held:
        return None
    # Imported late to keep the start of the window fast.
    from ui.pages.settings.small_plot import PlotCurve

    config = draft.section_alone(SECTION)
    objective = config.objective if config is not None else None
    heights = density_bins(objective.timesteps) if isinstance(objective, Denoising) else []
    if not heights:
        return "Fix the numbers to see how often each noise level is trained."
    points = [(index / (len(heights) - 1), height) for index, height in enumerate(heights)]
    ends = ("low noise: fine detail", "pure noise: composition")
    return PlotCurve("How often each noise level is trained", points, ends)


def density_bins(timesteps: Timesteps) -> list[float]:
    """Return how often timesteps are sampled, in bins of ten, relative to the highest bin.

    Ordered from low noise to pure noise; [] where there are no timesteps to sample.
    """
    from onetrainer.schedules.timestep_density import density

    try:
        fractions = density(timesteps, _STEPS)
    except ValueError:  # an empty range, which the form reports at the setting
        return []
    bins = [sum(fractions[start : start + _BIN]) for start in range(0, _STEPS, _BIN)]
    highest = max(bins)
    return [fraction / highest for fraction in bins]
