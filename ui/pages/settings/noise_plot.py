"""Plots of how often each noise level is trained, and how much it counts."""

from typing import TYPE_CHECKING

from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.timesteps import Timesteps
from ui.model.draft import Draft

if TYPE_CHECKING:
    from ui.pages.settings.small_plot import PlotCurve

SECTION = "objective.timesteps"
WEIGHTING = "objective.weighting"
WEIGHTING_INPUTS = (WEIGHTING, "model.prediction", "model.zero_terminal_snr")
WIDTH = 360
_STEPS = 1000
_BIN = 10
_ENDS = "low noise: fine detail", "pure noise: composition"


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
    return PlotCurve("How often each noise level is trained", _points(heights), _ENDS)


def weight_curve(draft: Draft) -> "PlotCurve | str | None":
    """Return how much each noise level counts, a message where a number is wrong, or None before.

    A prediction that is left to the model counts as that of noise.
    """
    if draft.is_held:
        return None
    from onetrainer.schedules.loss_weights import weight_curve
    from ui.pages.settings.small_plot import PlotCurve

    config = draft.section_alone(WEIGHTING)
    objective = config.objective if config is not None else None
    if not isinstance(objective, Denoising):
        return "Fix the numbers to see how much each noise level counts."
    prediction, zero_snr = (draft.value(path) for path in WEIGHTING_INPUTS[1:])
    is_noise, is_zero = prediction != "v_prediction", zero_snr == "on"
    weights = weight_curve(objective.weighting, is_noise=is_noise, zero_terminal_snr=is_zero)
    heights = weights[::_BIN]
    title = "How much each noise level counts "
    title += "if the model predicts " if prediction == "auto" else "where the model predicts "
    title += "noise" if is_noise else "velocity"
    title += ", under zero terminal SNR" if is_zero else ""
    return PlotCurve(title, _points([height / max(heights) for height in heights]), _ENDS)


def _points(heights: list[float]) -> list[tuple[float, float]]:
    """Return heights as points from left to right."""
    return [(index / (len(heights) - 1), height) for index, height in enumerate(heights)]


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
