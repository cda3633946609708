"""Rules of validation settings; the images are checked elsewhere."""

from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

DEFAULT_INTERVAL = 100  # steps or epochs; the interval that fixes suggest


def problems(config: TrainConfig) -> list[Problem]:
    """Return problems of validation; none if it is off."""
    if not config.validation.use:
        return []
    return [*_interval_problems(config), *_patience_problems(config)]


def _interval_problems(config: TrainConfig) -> list[Problem]:
    section = config.validation
    if section.every or section.at_start or section.at_end:
        return []
    return [
        Problem(
            "validation.every",
            "validation images are set aside but never measured",
            "Expected validation at an interval, at the start or at the end",
            "Set validation.every, or turn off validation.use to train on all images.",
            fix=Fix("validation.every", DEFAULT_INTERVAL),
        )
    ]


def _patience_problems(config: TrainConfig) -> list[Problem]:
    section, steps = config.validation, config.training.steps
    if not section.patience:
        return []
    if not section.every:
        return [
            Problem(
                "validation.patience",
                "training cannot stop early, because nothing is measured before its end",
                'Expected "Validate every" (validation.every) to be set',
                "Set validation.every, or set the patience to 0.",
                fix=Fix("validation.every", DEFAULT_INTERVAL),
            )
        ]
    earliest = section.every * (section.patience + (not section.at_start))
    if section.unit == "epochs" or earliest < steps:
        return []  # the length of an epoch is not known here
    return [
        Problem(
            "validation.patience",
            f"training cannot stop early: {section.patience} validations without improvement take"
            f" at least {earliest} steps, and the run has {steps}",
            "Expected a patience shorter than the run",
            "Lower validation.patience or validation.every.",
            "warning",
        )
    ]
