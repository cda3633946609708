"""Settings of optimizers with factored squared gradients: Adafactor and CAME."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Ui
from onetrainer.config.optimizers.optimizer_section import (
    DECOUPLED,
    Beta1,
    Beta2,
    Beta3,
    ClipThreshold,
    FusedBackward,
    Lr,
    OptimizerSection,
    WeightDecay,
)

_OptionalBeta1 = Annotated[
    float | None, Field(ge=0, lt=1), Ui("Beta 1", level="advanced", search="momentum betas")
]
_DecayRate = Annotated[float, Field(ge=-1, le=0), Ui("Decay rate", level="advanced")]
_Eps1 = Annotated[float, Field(gt=0, le=1), Ui("Epsilon 1", level="advanced", search="gradients")]
_Eps2 = Annotated[float, Field(gt=0, le=1), Ui("Epsilon 2", level="advanced", search="weights")]
_EpsOfSteps = Annotated[float, Field(gt=0, le=1), Ui("Epsilon 2", level="advanced", search="steps")]
_ScaleParameter = Annotated[
    bool, Ui("Scale parameter", level="advanced", search="scale_parameter weights")
]

_GIVEN_RATE: Mapping[str, object] = MappingProxyType(
    {"relative_step": False, "warmup_init": False, **DECOUPLED}
)
_RELATIVE_STEP: Mapping[str, object] = MappingProxyType({"relative_step": True, **DECOUPLED})


class Adafactor(OptimizerSection):
    """Adafactor with a fixed learning rate (Shazeer & Stern 2018, arXiv:1804.04235)."""

    title: ClassVar[str] = "Adafactor"
    target: ClassVar[str] = "pytorch_optimizer:AdaFactor"
    options: ClassVar[Mapping[str, object]] = _GIVEN_RATE
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    clips_itself: ClassVar[bool] = True
    kind: Literal["adafactor"] = "adafactor"

    lr: Lr = 1e-4
    """The learning rate after warm-up. About 1e-4 for LoRA; between 4e-7 and 1e-5 for a whole SDXL
    model."""

    scale_parameter: _ScaleParameter = False
    """Scales updates with the size of the weights: the learning rate is then a fraction of them."""

    clip_threshold: ClipThreshold = 1.0
    """The largest size an update may have, as a multiple of the learning rate."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the learning rate. 0 to 0.1 is usual."""

    beta1: _OptionalBeta1 = None
    """The decay of the mean of the updates. Empty means none, which saves its memory."""

    beta2: Beta2 = 0.999
    """The largest decay of the mean of the squared gradient."""

    decay_rate: _DecayRate = -0.8
    """How the decay of the squared gradient grows with the steps: 1 − step^rate."""

    eps1: _Eps1 = 1e-30
    """Avoids division by small gradients."""

    eps2: _Eps2 = 1e-3
    """The smallest size of weights used when updates are scaled by them."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class AdafactorRelative(OptimizerSection):
    """Adafactor as in its paper: the learning rate is computed from the step number."""

    title: ClassVar[str] = "Adafactor, relative step"
    target: ClassVar[str] = "pytorch_optimizer:AdaFactor"
    options: ClassVar[Mapping[str, object]] = _RELATIVE_STEP
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    clips_itself: ClassVar[bool] = True
    kind: Literal["adafactor_relative"] = "adafactor_relative"

    lr: ClassVar[float] = 1e-2
    """Not a setting: the initial and largest rate. It is never passed on."""

    scale_parameter: _ScaleParameter = True
    """Scales updates with the size of the weights, as in the paper."""

    warmup_init: Annotated[
        bool, Ui("Warm-up init", level="advanced", search="warmup_init warm-up relative step")
    ] = False
    """Starts with a rate of one millionth and raises it by as much in each step, up to 10,000."""

    clip_threshold: ClipThreshold = 1.0
    """The largest size an update may have, as a multiple of the rate."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the rate."""

    beta1: _OptionalBeta1 = None
    """The decay of the mean of the updates. Empty means none, which saves its memory."""

    beta2: Beta2 = 0.999
    """The largest decay of the mean of the squared gradient."""

    decay_rate: _DecayRate = -0.8
    """How the decay of the squared gradient grows with the steps: 1 − step^rate."""

    eps1: _Eps1 = 1e-30
    """Avoids division by small gradients."""

    eps2: _Eps2 = 1e-3
    """The smallest size of weights used when updates are scaled by them."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class Came(OptimizerSection):
    """CAME: Adafactor that trusts consistent updates more (Luo et al. 2023, arXiv:2307.02047)."""

    title: ClassVar[str] = "CAME"
    target: ClassVar[str] = "pytorch_optimizer:CAME"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "beta3")
    updates_independently: ClassVar[bool] = True
    clips_itself: ClassVar[bool] = True
    kind: Literal["came"] = "came"

    lr: Lr = 1e-4
    """The learning rate after warm-up. About the same as AdamW's, or half of it."""

    weight_decay: WeightDecay = 0.01
    """Shrinks weights toward zero, scaled by the learning rate. 0 to 0.1 is usual."""

    beta1: Beta1 = 0.9
    """The decay of the mean of the updates. Higher averages over more steps."""

    beta2: Beta2 = 0.999
    """The decay of the mean of the squared gradient. Higher averages over more steps."""

    beta3: Beta3 = 0.9999
    """The decay of the measure of instability. Higher averages over more steps."""

    clip_threshold: ClipThreshold = 1.0
    """The largest size an update may have, as a multiple of the learning rate."""

    eps1: _Eps1 = 1e-30
    """Avoids division by small gradients."""

    eps2: _EpsOfSteps = 1e-16
    """Avoids division by a small instability."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""
