"""Settings of loss weighting by timestep."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Plain(Section):
    """Every timestep has the same weight."""

    title: ClassVar[str] = "none"
    kind: Literal["none"] = "none"


class MinSnr(Section):
    """Timesteps with little noise have less weight (min-SNR). Source: Hang et al. 2023."""

    title: ClassVar[str] = "min-SNR"
    kind: Literal["min_snr"] = "min_snr"

    gamma: Annotated[
        float,
        Field(gt=0, le=1000),
        Ui("Min-SNR gamma", level="advanced", search="min_snr_gamma snr"),
    ] = 5.0
    """The signal-to-noise ratio above which the weight falls. 5 is usual; smaller evens the
    timesteps out more."""


class Debiased(Section):
    """Timesteps with much noise have more weight (debiased estimation). Source: Yu et al. 2023."""

    title: ClassVar[str] = "debiased estimation"
    kind: Literal["debiased"] = "debiased"


class P2(Section):
    """Timesteps at which content emerges have more weight than the final cleanup (P2).

    Source: Choi et al. 2022.
    """

    title: ClassVar[str] = "P2"
    kind: Literal["p2"] = "p2"

    exponent: Annotated[
        float, Field(ge=0, le=10), Ui("P2 gamma", level="advanced", search="p2 gamma")
    ] = 1.0
    """How strongly timesteps with little noise are weighted down (P2's gamma). 0.5 or 1 is usual;
    more trains the final cleanup less."""

    k: Annotated[float, Field(gt=0, le=1000), Ui("P2 k", level="advanced", search="p2 k")] = 1.0
    """The signal-to-noise ratio around which that begins (P2's k). 1 is usual; less begins at more
    noise."""


class VelocityLike(Section):
    """Noise errors are weighted as in a model that predicts velocity."""

    title: ClassVar[str] = "v-prediction-like"
    kind: Literal["v_like"] = "v_like"

    strength: Annotated[
        float,
        Field(gt=0, le=100),
        Ui("V-like loss weight", level="advanced", search="v_pred_like_loss share v-like"),
    ] = 1.0
    """How much of the v-prediction loss is added to the normal loss. It gives very noisy timesteps
    far more weight. 1 is usual; more trains composition more."""


class NoiseLike(Section):
    """Velocity errors are weighted as in a model that predicts noise."""

    title: ClassVar[str] = "noise-prediction-like"
    kind: Literal["noise_like"] = "noise_like"


Weighting = Annotated[
    Plain | MinSnr | Debiased | P2 | VelocityLike | NoiseLike, Field(discriminator="kind")
]
