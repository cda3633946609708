"""What every optimizer declares, and settings that several share."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Lr = Annotated[float, Field(gt=0, le=10), Ui("Learning rate", search="lr unet rate")]
WeightDecay = Annotated[
    float, Field(ge=0, le=10), Ui("Weight decay", level="advanced", search="l2 regularization")
]
Beta1 = Annotated[float, Field(ge=0, lt=1), Ui("Beta 1", level="advanced", search="momentum betas")]
Beta2 = Annotated[float, Field(ge=0, lt=1), Ui("Beta 2", level="advanced", search="betas")]
Beta3 = Annotated[float, Field(ge=0, lt=1), Ui("Beta 3", level="advanced", search="betas")]
Momentum = Annotated[float, Field(ge=0, lt=1), Ui("Momentum", level="advanced", search="beta")]
Eps = Annotated[float, Field(gt=0, le=1), Ui("Epsilon", level="advanced", search="eps")]
ClipThreshold = Annotated[
    float, Field(gt=0, le=1000), Ui("Clip threshold", level="advanced", search="clipping rms")
]
FusedBackward = Annotated[
    bool,
    Ui("Fused backward pass", level="advanced", search="fused back pass backward memory vram step"),
]

NOTHING: Mapping[str, object] = MappingProxyType({})
DECOUPLED: Mapping[str, object] = MappingProxyType({"weight_decouple": True})
"""Decoupled weight decay, as in AdamW, for libraries where it is optional."""


class OptimizerSection(Section):
    """The settings of one optimizer, and what the program has to know about it.

    target: the class, "module:Name". extra: the extra of this program that brings its package,
    "" where the package is always there. options: further arguments, always the same.
    betas: the fields that make up the argument "betas". names: the arguments that a field is, where
    they are not called the same. high_lr: above it a learning rate is a likely slip.

    moves_alone: a parameter's step depends on nothing but that parameter and the number of the
    step; exactly then there is a field `fused_backward`. is_schedule_free: the weights have an
    evaluation form, and the rate needs no schedule. is_adaptive: it finds its own rate, and `lr`
    multiplies that. has_one_rate: it uses the first group's rate for all. clips_itself: it bounds
    its own steps and does worse with gradient clipping.
    """

    title: ClassVar[str]
    target: ClassVar[str]
    extra: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = NOTHING
    betas: ClassVar[tuple[str, ...]] = ()
    names: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    high_lr: ClassVar[float] = 1e-2
    updates_independently: ClassVar[bool] = False
    is_schedule_free: ClassVar[bool] = False
    is_adaptive: ClassVar[bool] = False
    has_one_rate: ClassVar[bool] = False
    clips_itself: ClassVar[bool] = False
