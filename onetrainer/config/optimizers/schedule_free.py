"""Optimizers that need no schedule: their weights are averages (Defazio et al. 2024).

What trains and what is good to look at differ; see `OptimizerSection.is_schedule_free`.
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
    float, Field(ge=0, le=100), Ui("Power of the step", level="advanced", search="r averaging")
]
_LrPower = Annotated[
    float, Field(ge=0, le=100), Ui("Power of the rate", level="advanced", search="weight_lr_power")
]

# Its own rounding of bf16 weights draws from the global generator, which no resumed run could
# repeat; rounding is done around the step for all optimizers alike.
_PRODIGY_PLUS: Mapping[str, object] = MappingProxyType({"stochastic_rounding": False})


class ScheduleFreeAdamW(OptimizerSection):
    """AdamW without a schedule (Defazio et al. 2024, arXiv:2405.15682)."""

    title: ClassVar[str] = "Schedule-Free AdamW"
    target: ClassVar[str] = "pytorch_optimizer:ScheduleFreeAdamW"
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    is_schedule_free: ClassVar[bool] = True
    kind: Literal["schedulefree_adamw"] = "schedulefree_adamw"

    lr: Lr = 3e-4
    """The step size after warm-up: one to ten times AdamW's. Choose the constant schedule, with a
    warm-up."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and learning rate."""

    beta1: _Interpolation = 0.9
    """How near to the averaged weights the gradient is taken; 0.95 to 0.98 for long runs."""

    beta2: Beta2 = 0.999
    """How long the mean of the squared gradient remembers."""

    r: _StepPower = 0.0
    """Lets later steps count more in the average: by their number to this power."""

    weight_lr_power: _LrPower = 2.0
    """Lets steps of a warm-up count less in the average: by the rate to this power."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class ScheduleFreeSgd(OptimizerSection):
    """SGD without a schedule (Defazio et al. 2024, arXiv:2405.15682)."""

    title: ClassVar[str] = "Schedule-Free SGD"
    target: ClassVar[str] = "pytorch_optimizer:ScheduleFreeSGD"
    high_lr: ClassVar[float] = 10.0
    moves_alone: ClassVar[bool] = True
    is_schedule_free: ClassVar[bool] = True
    kind: Literal["schedulefree_sgd"] = "schedulefree_sgd"

    lr: Lr = 0.1
    """The step size after warm-up: ten to fifty times SGD's. Choose the constant schedule."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, through the gradient."""

    momentum: Annotated[
        float, Field(gt=0, lt=1), Ui("Momentum", level="advanced", search="beta interpolation")
    ] = 0.9
    """How near to the averaged weights the gradient is taken; 0.95 to 0.98 for long runs."""

    r: _StepPower = 0.0
    """Lets later steps count more in the average: by their number to this power."""

    weight_lr_power: _LrPower = 2.0
    """Lets steps of a warm-up count less in the average: by the rate to this power."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


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
    """Multiplies the rate that is found. Leave it at 1."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and found rate."""

    d0: FirstGuess = 1e-6
    """Where the search for the rate begins. Raise it to 1e-5 if the rate does not grow."""

    d_coef: Coefficient = 1.0
    """Multiplies the estimate of the rate: 0.5 is more careful, 2 bolder."""

    d_limiter: Annotated[bool, Ui("Limit growth", level="advanced", search="d_limiter growth")] = (
        True
    )
    """Lets the rate grow by at most a fifth in a step, which keeps it from overshooting early."""

    prodigy_steps: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        Ui("Search until", unit="steps", level="advanced", search="prodigy_steps freeze"),
    ] = 0
    """From this step on the rate stays as it is, and its memory is freed; 0 means never."""

    split_groups: Annotated[
        bool, Ui("A rate for each network", level="advanced", search="split_groups")
    ] = True
    """Finds a rate for each network by itself, rather than one for all."""

    beta1: _Interpolation = 0.9
    """How near to the averaged weights the gradient is taken; 0.95 to 0.98 for long runs."""

    beta2: Beta2 = 0.99
    """How long the mean of the squared gradient remembers."""

    beta3: OptionalBeta3 = None
    """How long the estimate of the rate remembers. Empty means the square root of beta 2."""

    schedulefree_c: Annotated[
        float,
        Field(ge=0, le=1000),
        Ui("Averaging strength", level="advanced", search="schedulefree_c"),
    ] = 0.0
    """Shortens the average: 6 to 12 for short, noisy runs, 50 to 200 for long ones; 0 means as
    published."""

    use_stableadamw: Annotated[
        bool, Ui("Clip steps", level="advanced", search="stableadamw clipping rms")
    ] = True
    """Bounds each step by its own size, in place of gradient clipping."""

    factored: Annotated[
        bool, Ui("Factored memory", level="advanced", search="adafactor memory")
    ] = True
    """Keeps squared gradients as a row and a column, which saves memory."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite."""
