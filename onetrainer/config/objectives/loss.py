"""How the difference between a prediction and its target is counted."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

HuberSchedule = Literal["constant", "exponential", "snr"]
Share = Annotated[float, Field(ge=0, le=1000)]

_WITH_HUBER = {"objective.loss.huber": ("*",)}


class Losses(Section):
    """How mistakes are counted: a sum of several measures, each with its own factor."""

    mse: Annotated[
        Share,
        Ui(
            "MSE",
            level="advanced",
            search="mean squared error l2 loss",
            lead="The loss is the sum of these measures. Squared error alone is what the published"
            " models were trained with.",
        ),
    ] = 1.0
    """How much the squared error counts. Large mistakes weigh most; 0 leaves it out."""

    mae: Annotated[Share, Ui("MAE", level="advanced", search="mean absolute error l1 loss")] = 0.0
    """How much the absolute error counts. It forgives single large mistakes, such as those that
    odd pictures make."""

    huber: Annotated[
        Share, Ui("Huber", level="advanced", search="pseudo-huber smooth l1 scheduled loss")
    ] = 0.0
    """How much the pseudo-Huber error counts: squared for mistakes below a threshold, absolute
    above it (Khrapov et al. 2024)."""

    log_cosh: Annotated[Share, Ui("Log-cosh", level="advanced", search="logcosh loss")] = 0.0
    """How much log(cosh(error)) counts: half the squared error for small mistakes, absolute for
    large ones."""

    huber_schedule: Annotated[
        HuberSchedule,
        Ui(
            "Huber threshold goes",
            level="advanced",
            search="huber schedule",
            only_with=_WITH_HUBER,
            choices={
                "constant": "the same at every timestep",
                "exponential": "down with the timestep",
                "snr": "down with the signal",
            },
        ),
    ] = "snr"
    """Whether the threshold falls from 1 where there is little noise to the one below where there
    is most: "exponential" with the timestep, "snr" with the share of signal, "constant" not at
    all."""

    huber_threshold: Annotated[
        float,
        Field(ge=0.0001, le=10),
        Ui("Huber threshold", level="advanced", search="huber_c delta", only_with=_WITH_HUBER),
    ] = 0.1
    """Mistakes below it are squared, above it absolute. With a falling threshold it is the one
    that noise alone gets."""

    huber_scale: Annotated[
        float,
        Field(ge=0.01, le=100),
        Ui("Huber scale", level="advanced", search="huber_scale", only_with=_WITH_HUBER),
    ] = 1.0
    """Multiplies the threshold at every timestep, whichever way it goes."""
