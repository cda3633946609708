"""Settings of optimizers with factored squared gradients: Adafactor and CAME."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.optimizers.optimizer_section import (
    DECOUPLED,
    Beta1,
    Beta2,
    Beta3,
    DecoupledDecay,
    FusedBackward,
    Lr,
    OptimizerSection,
    Options,
    SquareDecay,
    WeightDecay,
    advanced,
)

_ClipThreshold = Annotated[
    float,
    Field(
        gt=0,
        le=1000,
        description="The largest size an update may have, as a multiple of the learning rate.",
    ),
    advanced("Clip threshold", "clipping rms"),
]
_OptionalBeta1 = Annotated[
    float | None,
    Field(
        ge=0,
        lt=1,
        description="The decay of the mean of the updates. Empty means none, which saves its"
        " memory.",
    ),
    advanced("Beta 1", "momentum betas"),
]
_LargestSquareDecay = Annotated[
    Beta2, Field(description="The largest decay of the mean of the squared gradient.")
]
_DecayRate = Annotated[
    float,
    Field(
        ge=-1,
        le=0,
        description="How the decay of the squared gradient grows with the steps: 1 − step^rate.",
    ),
    advanced("Decay rate"),
]
_Eps1 = Annotated[
    float,
    Field(gt=0, le=1, description="Avoids division by small gradients."),
    advanced("Epsilon 1", "gradients"),
]
_Eps2 = Annotated[
    float,
    Field(
        gt=0, le=1, description="The smallest size of weights used when updates are scaled by them."
    ),
    advanced("Epsilon 2", "weights"),
]
_ScaleParameter = Annotated[bool, advanced("Scale parameter", "scale_parameter weights")]
_GIVEN_RATE: Options = (
    ("relative_step", False),
    ("warmup_init", False),
    *DECOUPLED,
)
_RELATIVE_STEP: Options = (
    ("relative_step", True),
    *DECOUPLED,
)


class Adafactor(OptimizerSection):
    """Adafactor with a fixed learning rate (Shazeer & Stern 2018, arXiv:1804.04235)."""

    title = "Adafactor"
    target = "pytorch_optimizer:AdaFactor"
    options = _GIVEN_RATE
    clips_itself = True
    kind: Literal["adafactor"] = "adafactor"
    lr: Lr = 1e-4
    """The learning rate after warm-up. About 1e-4 for LoRA; between 4e-7 and 1e-5 for a whole
    model."""
    scale_parameter: _ScaleParameter = False
    """Scales updates with the size of the weights: the learning rate is then a fraction of them."""
    clip_threshold: _ClipThreshold = 1.0
    weight_decay: DecoupledDecay = 0.0
    beta1: _OptionalBeta1 = None
    beta2: _LargestSquareDecay = 0.999
    decay_rate: _DecayRate = -0.8
    eps1: _Eps1 = 1e-30
    eps2: _Eps2 = 1e-3
    fused_backward: FusedBackward = False


class AdafactorRelative(OptimizerSection):
    """Adafactor as in its paper: the learning rate is computed from the step number."""

    title = "Adafactor, relative step"
    target = "pytorch_optimizer:AdaFactor"
    options = _RELATIVE_STEP
    clips_itself = True
    lr: ClassVar[float] = 1e-2  # not a setting: the initial and largest rate, never passed on
    kind: Literal["adafactor_relative"] = "adafactor_relative"
    scale_parameter: _ScaleParameter = True
    """Scales updates with the size of the weights, as in the paper."""
    warmup_init: Annotated[bool, advanced("Warm-up init", "warmup_init warm-up relative step")] = (
        False
    )
    """Starts with a rate of one millionth and raises it by as much in each step, up to 10,000."""
    clip_threshold: Annotated[
        _ClipThreshold,
        Field(description="The largest size an update may have, as a multiple of the rate."),
    ] = 1.0
    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the rate."""
    beta1: _OptionalBeta1 = None
    beta2: _LargestSquareDecay = 0.999
    decay_rate: _DecayRate = -0.8
    eps1: _Eps1 = 1e-30
    eps2: _Eps2 = 1e-3
    fused_backward: FusedBackward = False


class Came(OptimizerSection):
    """CAME: Adafactor that trusts consistent updates more (Luo et al. 2023, arXiv:2307.02047)."""

    title = "CAME"
    target = "pytorch_optimizer:CAME"
    options = DECOUPLED
    betas = ("beta1", "beta2", "beta3")
    clips_itself = True
    kind: Literal["came"] = "came"
    lr: Lr = 1e-4
    """The learning rate after warm-up. About the same as AdamW's, or half of it."""
    weight_decay: DecoupledDecay = 0.01
    beta1: Beta1 = 0.9
    """The decay of the mean of the updates. Higher averages over more steps."""
    beta2: SquareDecay = 0.999
    beta3: Beta3 = 0.9999
    """The decay of the measure of instability. Higher averages over more steps."""
    clip_threshold: _ClipThreshold = 1.0
    eps1: _Eps1 = 1e-30
    eps2: Annotated[float, Field(gt=0, le=1), advanced("Epsilon 2", "steps")] = 1e-16
    """Avoids division by a small instability."""
    fused_backward: FusedBackward = False


FactoredOptimizer = Adafactor | AdafactorRelative | Came
