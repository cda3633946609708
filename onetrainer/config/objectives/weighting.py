"""Settings of loss weighting by timestep.

`trains_pure_noise` is whether velocity of pure noise, the last timestep under zero terminal SNR,
has a weight above 0. For all others it is 0: any velocity means the same noise there.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Plain(Section):
    """Every timestep has the same weight, whatever the model predicts."""

    title: ClassVar[str] = "none"
    trains_pure_noise: ClassVar[bool] = True
    kind: Literal["none"] = "none"


class MinSnr(Section):
    """Timesteps with little noise have less weight (min-SNR). Source: Hang et al. 2023.

    Noise: all others have the full weight. Velocity: a middle timestep has most, pure noise none.
    """

    title: ClassVar[str] = "min-SNR"
    trains_pure_noise: ClassVar[bool] = False
    kind: Literal["min_snr"] = "min_snr"

    gamma: Annotated[
        float,
        Field(gt=0, le=1000),
        Ui("Min-SNR gamma", level="advanced", search="min_snr_gamma snr"),
    ] = 5.0
    """The signal-to-noise ratio above which the weight falls. 5 is usual; smaller evens the
    timesteps out more."""


class Debiased(Section):
    """Noise: timesteps with much noise have more weight. Velocity: those in the middle have most.

    It is debiased estimation, 1 / sqrt(snr), for the error of the noise in either. Source: Yu et
    al. 2023. Other trainers mean something else where the model predicts velocity: see the next.
    """

    title: ClassVar[str] = "debiased estimation"
    trains_pure_noise: ClassVar[bool] = False
    kind: Literal["debiased"] = "debiased"


class DebiasedOther(Section):
    """Timesteps with much noise have more weight, also where the model predicts velocity.

    Noise: as debiased estimation. Velocity: 1 / (snr + 1)^exponent, up to 1 for pure noise, which
    is what other trainers call debiased estimation.
    """

    title: ClassVar[str] = "debiased, as in other trainers"
    trains_pure_noise: ClassVar[bool] = True
    kind: Literal["debiased_other"] = "debiased_other"

    exponent: Annotated[
        float,
        Field(ge=0, le=10),
        Ui("Debiased exponent", level="advanced", search="debiased_estimation_loss"),
    ] = 1.0
    """For velocity alone: how strongly timesteps with little noise are weighted down. 1 is usual,
    as in kohya's scripts; others have 0.5. More trains the final cleanup less."""


class P2(Section):
    """Timesteps at which content emerges have more weight than the final cleanup (P2).

    Noise: the more noise, the more weight. Velocity: those in the middle have most, pure noise
    none. Source: Choi et al. 2022.
    """

    title: ClassVar[str] = "P2"
    trains_pure_noise: ClassVar[bool] = False
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
    trains_pure_noise: ClassVar[bool] = True
    kind: Literal["v_like"] = "v_like"

    strength: Annotated[
        float,
        Field(gt=0, le=100),
        Ui("V-like loss weight", level="advanced", search="v_pred_like_loss share v-like"),
    ] = 1.0
    """How much of the v-prediction loss is added to the normal loss. It gives very noisy timesteps
    far more weight. 1 is usual; more trains composition more."""


class NoiseLike(Section):
    """Velocity errors are weighted as in a model that predicts noise: pure noise has no weight."""

    title: ClassVar[str] = "noise-prediction-like"
    trains_pure_noise: ClassVar[bool] = False
    kind: Literal["noise_like"] = "noise_like"


Weighting = Annotated[
    Plain | MinSnr | Debiased | DebiasedOther | P2 | VelocityLike | NoiseLike,
    Field(discriminator="kind"),
]
