"""Lengths that are not known in steps while settings are checked."""

from onetrainer.config.base.amount import MOST
from onetrainer.config.train import TrainConfig
from onetrainer.schedules.amounts import in_steps


def in_likely_steps(config: TrainConfig) -> TrainConfig:
    """Return a config in steps that breaks a rule only if the run surely does.

    A length that depends on the images counts as one step, and that of the run as the most there
    can be. A run checks its config again once it knows its lengths.
    """
    return in_steps(config, lambda amount: MOST if amount == config.training.steps else 1)
