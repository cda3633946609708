"""Settings of optimizers that find their own learning rate, or need no schedule.

Schedule-free weights are averages (Defazio et al. 2024): those for training and for evaluation
differ, see `OptimizerSection.is_schedule_free`.
"""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.optimizers import shared
from onetrainer.config.optimizers.optimizer_section import DECOUPLED, OptimizerSection
from onetrainer.config.optimizers.shared import advanced

_FoundRateDecay = Annotated[
    shared.WeightDecay,
    Field(
        description="Shrinks weights toward zero, scaled by the found rate. 0 is usual, up "
        "to 0.1; more trains less."
    ),
]
_Beta3OfRate = Annotated[
    float | None,
    Field(ge=0, lt=1),
    Field(
        description="The decay of the rate estimate. Empty means the square root of beta 2. "
        "Empty is usual; higher changes more slowly."
    ),
    advanced("Beta 3", "betas"),
]
_GrowthRate = Annotated[
    float | None,
    Field(
        gt=1,
        le=1000,
        description="How much the rate may grow per step; 1.02 acts like a warm-up. Empty "
        "means no limit. Empty is usual; less grows more slowly.",
    ),
    advanced("Growth rate", "growth_rate fastest"),
]
_BiasCorrection = Annotated[bool, advanced("Bias correction", "use_bias_correction")]
# Between the newest weights and their average; neither end makes a method of it.
_Interpolation = Annotated[
    float,
    Field(
        gt=0,
        lt=1,
        description="How close to the averaged weights the gradient is computed; 0.95 to "
        "0.98 for long runs. 0.9 is usual; more is steadier and turns more "
        "slowly.",
    ),
]
_InterpolationBeta = Annotated[_Interpolation, advanced("Beta 1", "momentum betas interpolation")]
_StepPower = Annotated[
    float,
    Field(
        ge=0,
        le=100,
        description="Gives later steps more weight in the average: their number to this "
        "power. 0 is usual.",
    ),
    advanced("Averaging power (r)", "r averaging step"),
]
_LrPower = Annotated[
    float,
    Field(
        ge=0,
        le=100,
        description="Gives warm-up steps less weight in the average: the rate to this "
        "power. 2 is usual; more ignores them more.",
    ),
    advanced("Weight LR power", "weight_lr_power rate"),
]


class AdaptiveSection(OptimizerSection):
    """The settings of optimizers that find their own rate, most of them one for all weights."""

    options = DECOUPLED
    high_lr = 2.0
    is_adaptive = True
    has_one_rate = True
    skips_zero_rates = True
    lr: shared.Lr = 1.0
    """Multiplies the learning rate that is found. Leave it at 1. 1 is usual; more is bolder, less
    more careful."""
    weight_decay: _FoundRateDecay = 0.0
    d0: Annotated[shared.Small, advanced("Initial D", "d0 first guess rate")] = 1e-6
    """The initial estimate of the rate. Raise it to 1e-5 if the rate does not grow. 1e-6 is usual;
    more starts faster."""


class ProdigySection(AdaptiveSection):
    """The settings of Prodigy, in whichever form."""

    d_coef: Annotated[
        float, Field(gt=0, le=100), advanced("D coefficient", "d_coef share found rate")
    ] = 1.0
    """Multiplies the estimated rate: 0.5 is more careful, 2 is bolder. 1 is usual."""


class Prodigy(ProdigySection):
    """AdamW that finds its own learning rate: no search for one.

    Source: Mishchenko & Defazio 2023, arXiv:2306.06101.
    """

    title = "Prodigy"
    target = "pytorch_optimizer:Prodigy"
    kind: Literal["prodigy"] = "prodigy"
    weight_decay: _FoundRateDecay = 0.01
    growth_rate: _GrowthRate = None
    beta1: shared.GradientDecay = 0.9
    beta2: shared.Beta2 = 0.999
    """The decay of the mean of the squared gradient. 0.99 is common for images. 0.99 to 0.999 is
    usual; higher averages over more steps."""
    beta3: _Beta3OfRate = None
    bias_correction: _BiasCorrection = False
    """Corrects for means starting at zero. Recommended for images; starts more slowly."""
    safeguard_warmup: Annotated[bool, advanced("Safeguard during warm-up", "safeguard_warmup")] = (
        False
    )
    """Excludes the schedule's warm-up from the estimate, which would be too large otherwise. Turn
    it on whenever there is a warm-up."""
    eps: shared.DivisionEps = 1e-8


class ProdigyScheduleFree(ProdigySection):
    """Prodigy that needs neither a learning rate nor a schedule, with little memory.

    From the package prodigy-plus-schedule-free.
    """

    title = "Prodigy, Schedule-Free"
    target = "prodigyplus:ProdigyPlusScheduleFree"
    # Its own rounding of bf16 weights draws from the global generator, which no resumed run could
    # repeat; rounding is done around the step for all optimizers alike.
    options = (("stochastic_rounding", False),)
    is_schedule_free = True
    has_one_rate = False
    skips_zero_rates = False  # its published implementation counts them
    clips_itself = True
    kind: Literal["prodigy_schedulefree"] = "prodigy_schedulefree"
    d_limiter: Annotated[bool, advanced("D limiter", "d_limiter growth limit")] = True
    """Limits the growth of the rate to a fifth per step, which keeps it from overshooting early."""
    prodigy_steps: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        advanced("Prodigy steps", "prodigy_steps freeze search until", unit="steps"),
    ] = 0
    """Freezes the rate from this step on and frees its memory; 0 means never. 0 or a quarter of the
    run is usual; later finds it more exactly."""
    split_groups: Annotated[bool, advanced("Split groups", "split_groups rate each network")] = True
    """Finds a separate rate for each component, in place of one for all."""
    beta1: _InterpolationBeta = 0.9
    beta2: shared.SquareDecay = 0.99
    beta3: _Beta3OfRate = None
    schedulefree_c: Annotated[
        float,
        Field(ge=0, le=1000),
        advanced("Schedule-Free C", "schedulefree_c averaging strength"),
    ] = 0.0
    """Shortens the average: 6 to 12 for short, noisy runs, 50 to 200 for long ones; 0 means as
    published. 0 is usual; less averages over fewer steps."""
    use_stableadamw: Annotated[
        bool, advanced("StableAdamW", "stableadamw clipping rms clip steps")
    ] = True
    """Limits each update by its own size, in place of gradient clipping."""
    factored: Annotated[bool, advanced("Factored state", "adafactor memory")] = True
    """Factors squared gradients into a row and a column, which saves memory."""
    eps: shared.DivisionEps = 1e-8


class ScheduleFreeAdamW(OptimizerSection):
    """AdamW without a learning rate schedule: it averages the weights instead.

    Source: Defazio et al. 2024, arXiv:2405.15682.
    """

    title = "Schedule-Free AdamW"
    target = "pytorch_optimizer:ScheduleFreeAdamW"
    is_schedule_free = True
    updates_elementwise = True
    kind: Literal["schedulefree_adamw"] = "schedulefree_adamw"
    lr: shared.Lr = 3e-4
    """The learning rate after warm-up: one to ten times AdamW's is usual, with the constant
    schedule and a warm-up. Higher trains faster and spoils images sooner; lower is safer and takes
    more steps."""
    weight_decay: shared.DecoupledDecay = 0.0
    beta1: _InterpolationBeta = 0.9
    beta2: shared.SquareDecay = 0.999
    r: _StepPower = 0.0
    weight_lr_power: _LrPower = 2.0
    eps: shared.DivisionEps = 1e-8
    fused_backward: shared.FusedBackward = False


class ScheduleFreeSgd(OptimizerSection):
    """SGD without a learning rate schedule: it averages the weights instead.

    Source: Defazio et al. 2024, arXiv:2405.15682.
    """

    title = "Schedule-Free SGD"
    target = "pytorch_optimizer:ScheduleFreeSGD"
    high_lr = 10.0
    is_schedule_free = True
    updates_elementwise = True
    kind: Literal["schedulefree_sgd"] = "schedulefree_sgd"
    lr: shared.Lr = 0.1
    """The learning rate after warm-up: ten to fifty times SGD's is usual, with the constant
    schedule. Higher trains faster and spoils images sooner; lower is safer and takes more steps."""
    weight_decay: shared.L2Decay = 0.0
    momentum: Annotated[_Interpolation, advanced("Momentum", "beta interpolation")] = 0.9
    r: _StepPower = 0.0
    weight_lr_power: _LrPower = 2.0
    fused_backward: shared.FusedBackward = False


class GrowingSection(AdaptiveSection):
    """The settings of D-Adaptation with a limit to the rate's growth."""

    growth_rate: _GrowthRate = None


class DAdaptAdam(GrowingSection):
    """Adam that finds its own learning rate.

    Source: Defazio & Mishchenko 2023, arXiv:2301.07733.
    """

    title = "D-Adaptation Adam"
    target = "pytorch_optimizer:DAdaptAdam"
    kind: Literal["dadapt_adam"] = "dadapt_adam"
    beta1: shared.GradientDecay = 0.9
    beta2: shared.Beta2 = 0.999
    """The decay of the mean of the squared gradient and of the rate estimate. 0.999 is usual;
    higher averages over more steps."""
    bias_correction: _BiasCorrection = False
    """Corrects for means starting at zero."""
    eps: shared.DivisionEps = 1e-8


class DAdaptSgd(GrowingSection):
    """SGD that finds its own rate. Source: Defazio & Mishchenko 2023, arXiv:2301.07733."""

    title = "D-Adaptation SGD"
    target = "pytorch_optimizer:DAdaptSGD"
    kind: Literal["dadapt_sgd"] = "dadapt_sgd"
    momentum: shared.Momentum = 0.9
    """The fraction of the last update that is added to the next. 0.9 is usual; more is smoother and
    turns more slowly."""


class DAdaptLion(AdaptiveSection):
    """Lion that finds its own rate; experimental.

    Source: Defazio & Mishchenko 2023, arXiv:2301.07733.
    """

    title = "D-Adaptation Lion"
    target = "pytorch_optimizer:DAdaptLion"
    kind: Literal["dadapt_lion"] = "dadapt_lion"
    beta1: shared.Beta1 = 0.9
    """The fraction of the momentum in an update; the rest is the newest gradient. The momentum is
    small while the found rate is small. 0.9 is usual; higher turns more slowly."""
    beta2: shared.Beta2 = 0.999
    """The decay of the momentum and of the rate estimate. 0.999 is usual; higher averages over more
    steps."""


ProdigyOrScheduleFree = Prodigy | ProdigyScheduleFree | ScheduleFreeAdamW | ScheduleFreeSgd
DAdaptation = DAdaptAdam | DAdaptSgd | DAdaptLion
