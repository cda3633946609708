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
    """The settings and properties of one optimizer.

    Attributes:
        target: The class, "module:Name".
        extra: The extra of this program that installs its package; "" if it is always installed.
        options: Constant arguments.
        betas: The fields that form the argument "betas".
        names: The arguments of fields that are named differently.
        high_lr: A higher learning rate is probably a mistake.
        updates_independently: A parameter's update depends only on that parameter and the step
            number; exactly these optimizers have a field `fused_backward`.
        is_schedule_free: The weights have an evaluation form, and the rate needs no schedule.
        is_adaptive: It finds its own rate, which `lr` multiplies.
        has_one_rate: It uses the first group's rate for all groups.
        clips_itself: It limits its own updates, and trains worse with gradient clipping.
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
