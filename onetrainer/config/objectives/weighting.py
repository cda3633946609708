"""Settings of loss weighting by timestep."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Plain(Section):
    """Every timestep has the same weight."""

    title: ClassVar[str] = "none"
    kind: Literal["none"] = "none"


class MinSnr(Section):
    """Min-SNR: timesteps with little noise have less weight (Hang et al. 2023)."""

    title: ClassVar[str] = "min-SNR"
    kind: Literal["min_snr"] = "min_snr"

    gamma: Annotated[
        float,
        Field(gt=0, le=1000),
        Ui("Min-SNR gamma", level="advanced", search="min_snr_gamma snr"),
    ] = 5.0
    """The signal-to-noise ratio above which the weight falls. The paper advises 5; smaller evens
    the timesteps out more."""


class Debiased(Section):
    """Debiased estimation: timesteps with much noise have more weight (Yu et al. 2023)."""

    title: ClassVar[str] = "debiased estimation"
    kind: Literal["debiased"] = "debiased"


class P2(Section):
    """P2: timesteps at which content emerges have more weight than the final cleanup (Choi et al.
    2022).
    """

    title: ClassVar[str] = "P2"
    kind: Literal["p2"] = "p2"

    exponent: Annotated[
        float, Field(ge=0, le=10), Ui("P2 gamma", level="advanced", search="p2 gamma")
    ] = 1.0
    """How strongly timesteps with little noise are weighted down: the paper's gamma, 0.5 or 1."""

    k: Annotated[float, Field(gt=0, le=1000), Ui("P2 k", level="advanced", search="p2 k")] = 1.0
    """The signal-to-noise ratio around which that begins: the paper's k, 1."""


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
    far more weight."""


class NoiseLike(Section):
    """Velocity errors are weighted as in a model that predicts noise."""

    title: ClassVar[str] = "noise-prediction-like"
    kind: Literal["noise_like"] = "noise_like"


Weighting = Annotated[
    Plain | MinSnr | Debiased | P2 | VelocityLike | NoiseLike, Field(discriminator="kind")
]
