"""What is wrong between validation and the other settings; pictures are counted elsewhere."""

from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

USUAL_EVERY = 100  # steps or epochs; where a cure has to say how often


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of validation; none where it is off."""
    if not config.validation.use:
        return []
    return [*_time_problems(config), *_patience_problems(config)]


def _time_problems(config: TrainConfig) -> list[Problem]:
    section = config.validation
    if section.every or section.at_start or section.at_end:
        return []
    return [
        Problem(
            "validation.every",
            "pictures are held out and never measured",
            "Expected a validation after every so many steps, at the start or at the end",
            "Set validation.every, or turn off validation.use to learn all the pictures.",
            fix=Fix("validation.every", USUAL_EVERY),
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
                "training cannot end early, as nothing is measured before its end",
                'Expected "Validate every" (validation.every) to be set with it',
                "Set validation.every, or set the patience to 0.",
                fix=Fix("validation.every", USUAL_EVERY),
            )
        ]
    earliest = section.every * (section.patience + (not section.at_start))
    if section.unit == "epochs" or earliest < steps:
        return []  # how long an epoch is, only the pictures tell
    return [
        Problem(
            "validation.patience",
            f"training cannot end early: {section.patience} validations in vain take at least"
            f" {earliest} steps, and the run has {steps}",
            "Expected patience for less than the whole run",
            "Lower validation.patience or validation.every.",
            "warning",
        )
    ]
