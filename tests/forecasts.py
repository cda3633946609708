"""Forecasts of whole configs."""

from modules.forecast.forecast import Planner, Target

ON_GPU = Target("cuda")


def forecast(config, target=ON_GPU):
    """The forecast of a run, without fixes."""
    with Planner(target) as plans:
        return plans.forecast(plans.resolve_checkpointing(config))
