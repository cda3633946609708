"""Settings of optimizers that find their own learning rate: Prodigy and D-Adaptation."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Ui
from onetrainer.config.optimizers.optimizer_section import (
    DECOUPLED,
    Beta1,
    Beta2,
    Eps,
    Momentum,
    OptimizerSection,
    WeightDecay,
)

Multiplier = Annotated[float, Field(gt=0, le=10), Ui("Learning rate", search="lr unet rate")]
FirstGuess = Annotated[
    float, Field(gt=0, le=1), Ui("Initial D", level="advanced", search="d0 first guess rate")
]
Coefficient = Annotated[
    float,
    Field(gt=0, le=100),
    Ui("D coefficient", level="advanced", search="d_coef share found rate"),
]
OptionalBeta3 = Annotated[
    float | None, Field(ge=0, lt=1), Ui("Beta 3", level="advanced", search="betas")
]
_GrowthRate = Annotated[
    float | None,
    Field(gt=1, le=1000),
    Ui("Growth rate", level="advanced", search="growth_rate fastest"),
]
_BiasCorrection = Annotated[
    bool, Ui("Bias correction", level="advanced", search="use_bias_correction")
]


class Prodigy(OptimizerSection):
    """AdamW that finds its own rate (Mishchenko & Defazio 2023, arXiv:2306.06101)."""

    title: ClassVar[str] = "Prodigy"
    target: ClassVar[str] = "pytorch_optimizer:Prodigy"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    high_lr: ClassVar[float] = 2.0
    is_adaptive: ClassVar[bool] = True
    has_one_rate: ClassVar[bool] = True
    kind: Literal["prodigy"] = "prodigy"

    lr: Multiplier = 1.0
    """Multiplies the learning rate that Prodigy finds. Leave it at 1."""

    weight_decay: WeightDecay = 0.01
    """Shrinks weights toward zero, scaled by the found rate."""

    d0: FirstGuess = 1e-6
    """The initial estimate of the rate. Raise it to 1e-5 if the rate does not grow."""

    d_coef: Coefficient = 1.0
    """Multiplies the estimated rate: 0.5 is more careful, 2 is bolder."""

    growth_rate: _GrowthRate = None
    """How much the rate may grow per step; 1.02 acts like a warm-up. Empty means no limit."""

    beta1: Beta1 = 0.9
    """The decay of the mean of the gradient. Higher averages over more steps."""

    beta2: Beta2 = 0.999
    """The decay of the mean of the squared gradient. 0.99 is common for images."""

    beta3: OptionalBeta3 = None
    """The decay of the rate estimate. Empty means the square root of beta 2."""

    bias_correction: _BiasCorrection = False
    """Corrects for means starting at zero. Recommended for images; starts more slowly."""

    safeguard_warmup: Annotated[
        bool, Ui("Safeguard during warm-up", level="advanced", search="safeguard_warmup")
    ] = False
    """Excludes the schedule's warm-up from the estimate, which would be too large otherwise. Turn
    it on whenever there is a warm-up."""

    eps: Eps = 1e-8
    """Avoids division by small gradients."""


class DAdaptAdam(OptimizerSection):
    """Adam that finds its own rate (Defazio & Mishchenko 2023, arXiv:2301.07733)."""

    title: ClassVar[str] = "D-Adaptation Adam"
    target: ClassVar[str] = "pytorch_optimizer:DAdaptAdam"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    high_lr: ClassVar[float] = 2.0
    is_adaptive: ClassVar[bool] = True
    has_one_rate: ClassVar[bool] = True
    kind: Literal["dadapt_adam"] = "dadapt_adam"

    lr: Multiplier = 1.0
    """Multiplies the learning rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the found rate."""

    d0: FirstGuess = 1e-6
    """The initial estimate of the rate."""

    growth_rate: _GrowthRate = None
    """How much the rate may grow per step; 1.02 acts like a warm-up. Empty means no limit."""

    beta1: Beta1 = 0.9
    """The decay of the mean of the gradient. Higher averages over more steps."""

    beta2: Beta2 = 0.999
    """The decay of the mean of the squared gradient and of the rate estimate."""

    bias_correction: _BiasCorrection = False
    """Corrects for means starting at zero."""

    eps: Eps = 1e-8
    """Avoids division by small gradients."""


class DAdaptSgd(OptimizerSection):
    """SGD that finds its own rate (Defazio & Mishchenko 2023, arXiv:2301.07733)."""

    title: ClassVar[str] = "D-Adaptation SGD"
    target: ClassVar[str] = "pytorch_optimizer:DAdaptSGD"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    high_lr: ClassVar[float] = 2.0
    is_adaptive: ClassVar[bool] = True
    has_one_rate: ClassVar[bool] = True
    kind: Literal["dadapt_sgd"] = "dadapt_sgd"

    lr: Multiplier = 1.0
    """Multiplies the learning rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the found rate."""

    d0: FirstGuess = 1e-6
    """The initial estimate of the rate."""

    growth_rate: _GrowthRate = None
    """How much the rate may grow per step; 1.02 acts like a warm-up. Empty means no limit."""

    momentum: Momentum = 0.9
    """The fraction of the last update that is added to the next."""


class DAdaptLion(OptimizerSection):
    """Lion that finds its own rate; experimental (Defazio & Mishchenko 2023, arXiv:2301.07733)."""

    title: ClassVar[str] = "D-Adaptation Lion"
    target: ClassVar[str] = "pytorch_optimizer:DAdaptLion"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    high_lr: ClassVar[float] = 2.0
    is_adaptive: ClassVar[bool] = True
    has_one_rate: ClassVar[bool] = True
    kind: Literal["dadapt_lion"] = "dadapt_lion"

    lr: Multiplier = 1.0
    """Multiplies the learning rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the found rate."""

    d0: FirstGuess = 1e-6
    """The initial estimate of the rate."""

    beta1: Beta1 = 0.9
    """The share of the momentum in an update; the rest is the newest gradient. The momentum is
    small while the found rate is small."""

    beta2: Beta2 = 0.999
    """The decay of the momentum and of the rate estimate."""
