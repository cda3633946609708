"""Settings of the loss terms."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

HuberSchedule = Literal["constant", "exponential", "snr"]
Weight = Annotated[float, Field(ge=0, le=1000)]

_WITH_HUBER = {"objective.loss.huber": ("*",)}


class Losses(Section):
    """How errors are measured: a weighted sum of several loss terms."""

    mse: Annotated[
        Weight,
        Ui(
            "MSE",
            level="advanced",
            search="mean squared error l2 loss",
            lead="The loss is the weighted sum of these terms. Published models were trained"
            " with the squared error only.",
        ),
    ] = 1.0
    """The weight of the squared error. Large errors count most; 0 turns it off. 1 is usual."""

    mae: Annotated[Weight, Ui("MAE", level="advanced", search="mean absolute error l1 loss")] = 0.0
    """The weight of the absolute error. It is less sensitive to single large errors, such as those
    of unusual images. 0 is usual; more ignores outliers more."""

    huber: Annotated[
        Weight, Ui("Huber", level="advanced", search="pseudo-huber smooth l1 scheduled loss")
    ] = 0.0
    """The weight of the pseudo-Huber error: squared for errors below a threshold, absolute above
    it. 0 is usual; more ignores outliers more. Source: Khrapov et al. 2024."""

    log_cosh: Annotated[Weight, Ui("Log-cosh", level="advanced", search="logcosh loss")] = 0.0
    """The weight of log(cosh(error)): half the squared error for small errors, absolute for large
    ones. 0 is usual; more ignores outliers more."""

    huber_schedule: Annotated[
        HuberSchedule,
        Ui(
            "Huber schedule",
            level="advanced",
            search="huber schedule threshold goes",
            only_with=_WITH_HUBER,
            choices={"snr": "SNR"},
        ),
    ] = "snr"
    """Whether the threshold falls from 1 at little noise to the threshold below at full noise:
    "exponential" with the timestep, "snr" with the signal fraction, "constant" not at all."""

    huber_threshold: Annotated[
        float,
        Field(ge=0.0001, le=10),
        Ui("Huber threshold", level="advanced", search="huber_c delta", only_with=_WITH_HUBER),
    ] = 0.1
    """Errors below it are squared, above it absolute. With a falling threshold, this is the value
    at full noise. 0.1 is usual; less ignores more outliers."""

    huber_scale: Annotated[
        float,
        Field(ge=0.01, le=100),
        Ui("Huber scale", level="advanced", search="huber_scale", only_with=_WITH_HUBER),
    ] = 1.0
    """Multiplies the threshold at every timestep, with any schedule. 1 is usual; less ignores more
    outliers."""
