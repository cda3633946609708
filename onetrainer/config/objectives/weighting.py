"""How much each timestep counts."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Plain(Section):
    """Every timestep counts the same, as the model predicts it."""

    title: ClassVar[str] = "every timestep alike"
    kind: Literal["none"] = "none"


class MinSnr(Section):
    """Min-SNR: timesteps with little noise count less (Hang et al. 2023)."""

    title: ClassVar[str] = "min-SNR"
    kind: Literal["min_snr"] = "min_snr"

    gamma: Annotated[
        float,
        Field(gt=0, le=1000),
        Ui("Min-SNR gamma", level="advanced", search="min_snr_gamma snr"),
    ] = 5.0
    """The signal-to-noise ratio above which timesteps begin to count less. The paper advises 5;
    smaller evens the timesteps out more."""


class Debiased(Section):
    """Debiased estimation: noisy timesteps count more (Yu et al. 2023)."""

    title: ClassVar[str] = "debiased estimation"
    kind: Literal["debiased"] = "debiased"


class P2(Section):
    """P2: timesteps where content emerges count more than the clean-up (Choi et al. 2022)."""

    title: ClassVar[str] = "P2"
    kind: Literal["p2"] = "p2"

    exponent: Annotated[
        float, Field(ge=0, le=10), Ui("P2 gamma", level="advanced", search="p2 gamma")
    ] = 1.0
    """How strongly timesteps with little noise are held back: the paper's gamma, 0.5 or 1."""

    k: Annotated[float, Field(gt=0, le=1000), Ui("P2 k", level="advanced", search="p2 k")] = 1.0
    """The signal-to-noise ratio around which that begins: the paper's k, 1."""


class VelocityLike(Section):
    """Mistakes of noise count as they would in a model that predicts velocity."""

    title: ClassVar[str] = "also like v-prediction"
    kind: Literal["v_like"] = "v_like"

    strength: Annotated[
        float,
        Field(gt=0, le=100),
        Ui("Share of the v-like loss", level="advanced", search="v_pred_like_loss"),
    ] = 1.0
    """How much of the loss of v-prediction is added to the ordinary one. It counts very noisy
    timesteps far more."""


class NoiseLike(Section):
    """Mistakes of velocity count as they would in a model that predicts noise."""

    title: ClassVar[str] = "like noise prediction"
    kind: Literal["noise_like"] = "noise_like"


Weighting = Annotated[
    Plain | MinSnr | Debiased | P2 | VelocityLike | NoiseLike, Field(discriminator="kind")
]
