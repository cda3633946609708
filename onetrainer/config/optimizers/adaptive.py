"""Optimizers that find their own learning rate: Prodigy and D-Adaptation."""

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
    float, Field(gt=0, le=1), Ui("First guess of the rate", level="advanced", search="d0")
]
Coefficient = Annotated[
    float, Field(gt=0, le=100), Ui("Share of the found rate", level="advanced", search="d_coef")
]
OptionalBeta3 = Annotated[
    float | None, Field(ge=0, lt=1), Ui("Beta 3", level="advanced", search="betas")
]
_GrowthRate = Annotated[
    float | None,
    Field(gt=1, le=1000),
    Ui("Fastest growth", level="advanced", search="growth_rate"),
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
    """Multiplies the rate that Prodigy finds. Leave it at 1."""

    weight_decay: WeightDecay = 0.01
    """How strongly weights are pulled toward zero, per step and found rate."""

    d0: FirstGuess = 1e-6
    """Where the search for the rate begins. Raise it to 1e-5 if the rate does not grow."""

    d_coef: Coefficient = 1.0
    """Multiplies the estimate of the rate: 0.5 is more careful, 2 bolder."""

    growth_rate: _GrowthRate = None
    """By how much the rate may be multiplied in one step; 1.02 is like a warm-up. Empty means
    without a limit."""

    beta1: Beta1 = 0.9
    """How long the mean of the gradient remembers."""

    beta2: Beta2 = 0.999
    """How long the mean of the squared gradient remembers. 0.99 is common for pictures."""

    beta3: OptionalBeta3 = None
    """How long the estimate of the rate remembers. Empty means the square root of beta 2."""

    bias_correction: _BiasCorrection = False
    """Divides out that means begin at zero. Recommended for pictures, and slower to start."""

    safeguard_warmup: Annotated[
        bool, Ui("Safeguard during warm-up", level="advanced", search="safeguard_warmup")
    ] = False
    """Keeps the schedule's warm-up out of the estimate, which would otherwise come out too
    large. To be on wherever there is a warm-up."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite."""


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
    """Multiplies the rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and found rate."""

    d0: FirstGuess = 1e-6
    """Where the search for the rate begins."""

    growth_rate: _GrowthRate = None
    """By how much the rate may be multiplied in one step; 1.02 is like a warm-up. Empty means
    without a limit."""

    beta1: Beta1 = 0.9
    """How long the mean of the gradient remembers."""

    beta2: Beta2 = 0.999
    """How long the mean of the squared gradient and the estimate of the rate remember."""

    bias_correction: _BiasCorrection = False
    """Divides out that means begin at zero."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite."""


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
    """Multiplies the rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and found rate."""

    d0: FirstGuess = 1e-6
    """Where the search for the rate begins."""

    growth_rate: _GrowthRate = None
    """By how much the rate may be multiplied in one step; 1.02 is like a warm-up. Empty means
    without a limit."""

    momentum: Momentum = 0.9
    """How much of the last step goes on in the next."""


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
    """Multiplies the rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and found rate."""

    d0: FirstGuess = 1e-6
    """Where the search for the rate begins."""

    beta1: Beta1 = 0.9
    """How much of the momentum decides a step; the rest is the newest gradient. The momentum is
    small as long as the found rate is."""

    beta2: Beta2 = 0.999
    """How long the momentum and the estimate of the rate remember."""
