"""Settings of schedule-free optimizers: their weights are averages (Defazio et al. 2024).

The weights for training and for evaluation differ; see `OptimizerSection.is_schedule_free`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Ui
from onetrainer.config.optimizers.adaptive import (
    Coefficient,
    FirstGuess,
    Multiplier,
    OptionalBeta3,
)
from onetrainer.config.optimizers.optimizer_section import (
    Beta2,
    Eps,
    FusedBackward,
    Lr,
    OptimizerSection,
    WeightDecay,
)

# Between the newest weights and their average; neither end makes a method of it.
_Interpolation = Annotated[
    float, Field(gt=0, lt=1), Ui("Beta 1", level="advanced", search="momentum betas interpolation")
]
_StepPower = Annotated[
    float,
    Field(ge=0, le=100),
    Ui("Averaging power (r)", level="advanced", search="r averaging step"),
]
_LrPower = Annotated[
    float,
    Field(ge=0, le=100),
    Ui("Weight LR power", level="advanced", search="weight_lr_power rate"),
]

# Its own rounding of bf16 weights draws from the global generator, which no resumed run could
# repeat; rounding is done around the step for all optimizers alike.
_PRODIGY_PLUS: Mapping[str, object] = MappingProxyType({"stochastic_rounding": False})


class ScheduleFreeAdamW(OptimizerSection):
    """AdamW without a schedule (Defazio et al. 2024, arXiv:2405.15682)."""

    title: ClassVar[str] = "Schedule-Free AdamW"
    target: ClassVar[str] = "pytorch_optimizer:ScheduleFreeAdamW"
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    is_schedule_free: ClassVar[bool] = True
    kind: Literal["schedulefree_adamw"] = "schedulefree_adamw"

    lr: Lr = 3e-4
    """The learning rate after warm-up: one to ten times AdamW's. Use the constant schedule with a
    warm-up."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the learning rate. 0 to 0.1 is usual."""

    beta1: _Interpolation = 0.9
    """How close to the averaged weights the gradient is computed; 0.95 to 0.98 for long runs."""

    beta2: Beta2 = 0.999
    """The decay of the mean of the squared gradient. Higher averages over more steps."""

    r: _StepPower = 0.0
    """Gives later steps more weight in the average: their number to this power."""

    weight_lr_power: _LrPower = 2.0
    """Gives warm-up steps less weight in the average: the rate to this power."""

    eps: Eps = 1e-8
    """Avoids division by small gradients."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class ScheduleFreeSgd(OptimizerSection):
    """SGD without a schedule (Defazio et al. 2024, arXiv:2405.15682)."""

    title: ClassVar[str] = "Schedule-Free SGD"
    target: ClassVar[str] = "pytorch_optimizer:ScheduleFreeSGD"
    high_lr: ClassVar[float] = 10.0
    updates_independently: ClassVar[bool] = True
    is_schedule_free: ClassVar[bool] = True
    kind: Literal["schedulefree_sgd"] = "schedulefree_sgd"

    lr: Lr = 0.1
    """The learning rate after warm-up: ten to fifty times SGD's. Use the constant schedule."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, as part of the gradient (L2)."""

    momentum: Annotated[
        float, Field(gt=0, lt=1), Ui("Momentum", level="advanced", search="beta interpolation")
    ] = 0.9
    """How close to the averaged weights the gradient is computed; 0.95 to 0.98 for long runs."""

    r: _StepPower = 0.0
    """Gives later steps more weight in the average: their number to this power."""

    weight_lr_power: _LrPower = 2.0
    """Gives warm-up steps less weight in the average: the rate to this power."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class ProdigyScheduleFree(OptimizerSection):
    """Prodigy and Schedule-Free in one, with little memory (prodigy-plus-schedule-free)."""

    title: ClassVar[str] = "Prodigy, Schedule-Free"
    target: ClassVar[str] = "prodigyplus:ProdigyPlusScheduleFree"
    extra: ClassVar[str] = "optimizers"
    options: ClassVar[Mapping[str, object]] = _PRODIGY_PLUS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    high_lr: ClassVar[float] = 2.0
    is_schedule_free: ClassVar[bool] = True
    is_adaptive: ClassVar[bool] = True
    clips_itself: ClassVar[bool] = True
    kind: Literal["prodigy_schedulefree"] = "prodigy_schedulefree"

    lr: Multiplier = 1.0
    """Multiplies the learning rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the found rate."""

    d0: FirstGuess = 1e-6
    """The initial estimate of the rate. Raise it to 1e-5 if the rate does not grow."""

    d_coef: Coefficient = 1.0
    """Multiplies the estimated rate: 0.5 is more careful, 2 is bolder."""

    d_limiter: Annotated[
        bool, Ui("D limiter", level="advanced", search="d_limiter growth limit")
    ] = True
    """Limits the growth of the rate to a fifth per step, which keeps it from overshooting early."""

    prodigy_steps: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        Ui(
            "Prodigy steps",
            unit="steps",
            level="advanced",
            search="prodigy_steps freeze search until",
        ),
    ] = 0
    """Freezes the rate from this step on and frees its memory; 0 means never."""

    split_groups: Annotated[
        bool, Ui("Split groups", level="advanced", search="split_groups rate each network")
    ] = True
    """Finds a separate rate for each component, in place of one for all."""

    beta1: _Interpolation = 0.9
    """How close to the averaged weights the gradient is computed; 0.95 to 0.98 for long runs."""

    beta2: Beta2 = 0.99
    """The decay of the mean of the squared gradient. Higher averages over more steps."""

    beta3: OptionalBeta3 = None
    """The decay of the rate estimate. Empty means the square root of beta 2."""

    schedulefree_c: Annotated[
        float,
        Field(ge=0, le=1000),
        Ui("Schedule-Free C", level="advanced", search="schedulefree_c averaging strength"),
    ] = 0.0
    """Shortens the average: 6 to 12 for short, noisy runs, 50 to 200 for long ones; 0 means as
    published."""

    use_stableadamw: Annotated[
        bool, Ui("StableAdamW", level="advanced", search="stableadamw clipping rms clip steps")
    ] = True
    """Limits each update by its own size, in place of gradient clipping."""

    factored: Annotated[bool, Ui("Factored state", level="advanced", search="adafactor memory")] = (
        True
    )
    """Factors squared gradients into a row and a column, which saves memory."""

    eps: Eps = 1e-8
    """Avoids division by small gradients."""
