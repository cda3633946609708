"""Optimizers that keep squared gradients as a row and a column: Adafactor and CAME."""

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
_Eps1 = Annotated[float, Field(gt=0, le=1), Ui("Epsilon of gradients", level="advanced")]
_Eps2 = Annotated[float, Field(gt=0, le=1), Ui("Epsilon of weights", level="advanced")]
_EpsOfSteps = Annotated[float, Field(gt=0, le=1), Ui("Epsilon of steps", level="advanced")]
_ScaleParameter = Annotated[
    bool, Ui("Scale by the weights", level="advanced", search="scale_parameter")
]

_GIVEN_RATE: Mapping[str, object] = MappingProxyType(
    {"relative_step": False, "warmup_init": False, **DECOUPLED}
)
_RELATIVE_STEP: Mapping[str, object] = MappingProxyType({"relative_step": True, **DECOUPLED})


class Adafactor(OptimizerSection):
    """Adafactor at a given learning rate (Shazeer & Stern 2018, arXiv:1804.04235)."""

    title: ClassVar[str] = "Adafactor"
    target: ClassVar[str] = "pytorch_optimizer:AdaFactor"
    options: ClassVar[Mapping[str, object]] = _GIVEN_RATE
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    clips_itself: ClassVar[bool] = True
    kind: Literal["adafactor"] = "adafactor"

    lr: Lr = 1e-4
    """The step size after warm-up. LoRA likes about 1e-4; a whole SDXL model between 4e-7 and
    1e-5."""

    scale_parameter: _ScaleParameter = False
    """Makes steps as large as the weights they change: the learning rate is then a share of
    them."""

    clip_threshold: ClipThreshold = 1.0
    """The largest size a step may have, as a multiple of the learning rate."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and learning rate."""

    beta1: _OptionalBeta1 = None
    """How long the mean of the steps remembers. Empty means none, which saves its memory."""

    beta2: Beta2 = 0.999
    """The longest that the mean of the squared gradient may come to remember."""

    decay_rate: _DecayRate = -0.8
    """How the memory of the squared gradient grows with the steps: 1 − step^rate."""

    eps1: _Eps1 = 1e-30
    """Keeps the division by a small gradient finite."""

    eps2: _Eps2 = 1e-3
    """The smallest size that weights count as, where steps are scaled by the weights."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class AdafactorRelative(OptimizerSection):
    """Adafactor as in its paper: the rate follows from the step's number, and none is given."""

    title: ClassVar[str] = "Adafactor, relative step"
    target: ClassVar[str] = "pytorch_optimizer:AdaFactor"
    options: ClassVar[Mapping[str, object]] = _RELATIVE_STEP
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    clips_itself: ClassVar[bool] = True
    kind: Literal["adafactor_relative"] = "adafactor_relative"

    lr: ClassVar[float] = 1e-2
    """No setting: what the rate begins with and can at most be. It is never passed on."""

    scale_parameter: _ScaleParameter = True
    """Makes steps as large as the weights they change, as the paper has it."""

    warmup_init: Annotated[
        bool, Ui("Warm-up of the relative step", level="advanced", search="warmup_init")
    ] = False
    """Begins with a rate of a millionth and raises it by as much in each step, up to 10,000."""

    clip_threshold: ClipThreshold = 1.0
    """The largest size a step may have, as a multiple of the rate."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and rate."""

    beta1: _OptionalBeta1 = None
    """How long the mean of the steps remembers. Empty means none, which saves its memory."""

    beta2: Beta2 = 0.999
    """The longest that the mean of the squared gradient may come to remember."""

    decay_rate: _DecayRate = -0.8
    """How the memory of the squared gradient grows with the steps: 1 − step^rate."""

    eps1: _Eps1 = 1e-30
    """Keeps the division by a small gradient finite."""

    eps2: _Eps2 = 1e-3
    """The smallest size that weights count as, where steps are scaled by the weights."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class Came(OptimizerSection):
    """CAME: Adafactor that trusts steady steps more (Luo et al. 2023, arXiv:2307.02047)."""

    title: ClassVar[str] = "CAME"
    target: ClassVar[str] = "pytorch_optimizer:CAME"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "beta3")
    moves_alone: ClassVar[bool] = True
    clips_itself: ClassVar[bool] = True
    kind: Literal["came"] = "came"

    lr: Lr = 1e-4
    """The step size after warm-up. About the same as AdamW's, or half of it."""

    weight_decay: WeightDecay = 0.01
    """How strongly weights are pulled toward zero, per step and learning rate."""

    beta1: Beta1 = 0.9
    """How long the mean of the steps remembers."""

    beta2: Beta2 = 0.999
    """How long the mean of the squared gradient remembers."""

    beta3: Beta3 = 0.9999
    """How long the measure of unsteadiness remembers."""

    clip_threshold: ClipThreshold = 1.0
    """The largest size a step may have, as a multiple of the learning rate."""

    eps1: _Eps1 = 1e-30
    """Keeps the division by a small gradient finite."""

    eps2: _EpsOfSteps = 1e-16
    """Keeps the division by a small unsteadiness finite."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""
