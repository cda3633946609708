"""Settings of optimizers with factored squared gradients: Adafactor and CAME."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.optimizers import shared
from onetrainer.config.optimizers.optimizer_section import DECOUPLED, OptimizerSection, Options
from onetrainer.config.optimizers.shared import advanced

# The library's default is bfloat16: 0.2 % of the way off the published mean after 300 steps.
_EXACT_MEAN: Options = (("momentum_dtype", "float32"),)
_BareClipThreshold = Annotated[
    float, Field(gt=0, le=1000), advanced("Clip threshold", "clipping rms")
]
_ClipThreshold = Annotated[
    _BareClipThreshold,
    Field(
        description="The largest size an update may have, as a multiple of the learning "
        "rate. 1 is usual; less is steadier and slower."
    ),
]
_Eps1 = Annotated[
    shared.Small,
    Field(
        description="Avoids division by small gradients. The default is usual; more makes "
        "small updates smaller."
    ),
    advanced("Epsilon 1", "gradients"),
]
_ScaleParameter = Annotated[bool, advanced("Scale parameter", "scale_parameter weights")]


class AdafactorRate(OptimizerSection):
    """The setting of Adafactor that its relative step replaces."""

    lr: shared.Lr = 1e-4
    """The learning rate after warm-up. 1e-4 is usual for LoRA, between 4e-7 and 1e-5 for a whole
    model. Higher trains faster and spoils images sooner; lower is safer and takes more steps."""


class AdafactorSection(OptimizerSection):
    """The settings of Adafactor."""

    target = "pytorch_optimizer:AdaFactor"
    clips_itself = True
    scale_parameter: _ScaleParameter = False
    """Scales updates with the size of the weights: the learning rate is then a fraction of them."""
    clip_threshold: _ClipThreshold = 1.0
    weight_decay: shared.DecoupledDecay = 0.0
    beta1: Annotated[float | None, Field(ge=0, lt=1), advanced("Beta 1", "momentum betas")] = None
    """The decay of the mean of the updates. Empty means none, which saves its memory. Empty or 0.9
    is usual; higher averages over more steps."""
    beta2: shared.Beta2 = 0.999
    """The largest decay of the mean of the squared gradient. 0.999 is usual; higher averages over
    more steps."""
    decay_rate: Annotated[float, Field(ge=-1, le=0), advanced("Decay rate")] = -0.8
    """How the decay of the squared gradient grows with the steps: 1 − step^rate. -0.8 is usual;
    closer to 0 forgets more quickly."""
    eps1: _Eps1 = 1e-30
    eps2: Annotated[shared.Small, advanced("Epsilon 2", "weights")] = 1e-3
    """The smallest size of weights used when updates are scaled by them. 0.001 is usual; more gives
    small weights larger updates."""
    fused_backward: shared.FusedBackward = False


class Adafactor(AdafactorSection, AdafactorRate):
    """Adam with very little memory, at a fixed learning rate.

    Source: Shazeer & Stern 2018, arXiv:1804.04235.
    """

    title = "Adafactor"
    options = (("relative_step", False), ("warmup_init", False), *_EXACT_MEAN, *DECOUPLED)
    kind: Literal["adafactor"] = "adafactor"


class AdafactorRelative(AdafactorSection):
    """Adafactor that computes its learning rate from the step number, as it was published."""

    title = "Adafactor, relative step"
    options = (("relative_step", True), *_EXACT_MEAN, *DECOUPLED)
    lr: ClassVar[float] = 1e-2  # not a setting: the initial and largest rate, never passed on
    kind: Literal["adafactor_relative"] = "adafactor_relative"
    scale_parameter: _ScaleParameter = True
    """Scales updates with the size of the weights. On is usual; off gives every weight the same."""
    warmup_init: Annotated[bool, advanced("Warm-up init", "warmup_init warm-up relative step")] = (
        False
    )
    """Starts with a rate of one millionth and raises it by as much in each step, up to 10,000."""
    clip_threshold: _BareClipThreshold = 1.0
    """The largest size an update may have, as a multiple of the rate. 1 is usual; less is steadier
    and slower."""
    weight_decay: shared.WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the rate. 0 is usual, up to 0.1; more trains less."""


class Came(OptimizerSection):
    """Adafactor that trusts consistent updates more (CAME).

    Source: Luo et al. 2023, arXiv:2307.02047.
    """

    title = "CAME"
    target = "pytorch_optimizer:CAME"
    options = DECOUPLED
    betas = ("beta1", "beta2", "beta3")
    clips_itself = True
    kind: Literal["came"] = "came"
    lr: shared.Lr = 1e-4
    """The learning rate after warm-up. 1e-4 or half of it is usual for LoRA. Higher trains
    faster and spoils images sooner; lower is safer and takes more steps."""
    weight_decay: shared.DecoupledDecay = 0.01
    beta1: shared.Beta1 = 0.9
    """The decay of the mean of the updates. Higher averages over more steps. 0.9 is usual."""
    beta2: shared.SquareDecay = 0.999
    beta3: shared.Beta3 = 0.9999
    """The decay of the measure of instability. Higher averages over more steps. 0.9999 is usual."""
    clip_threshold: _ClipThreshold = 1.0
    eps1: _Eps1 = 1e-30
    eps2: Annotated[shared.Small, advanced("Epsilon 2", "steps")] = 1e-16
    """Avoids division by a small instability. 1e-16 is usual; more makes it react less."""
    fused_backward: shared.FusedBackward = False


FactoredOptimizer = Adafactor | AdafactorRelative | Came
