"""What every optimizer declares, and settings that several share, with their usual sentences.

A section that gives a setting another sentence takes the bare type (`Beta1`) and writes it below.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


def advanced(label: str, search: str = "", *, unit: str = "") -> Ui:
    """Return the display properties of an advanced setting."""
    return Ui(label, unit=unit, level="advanced", search=search)


Lr = Annotated[float, Field(gt=0, le=10), Ui("Learning rate", search="lr unet rate")]
WeightDecay = Annotated[float, Field(ge=0, le=10), advanced("Weight decay", "l2 regularization")]
DecoupledDecay = Annotated[
    WeightDecay,
    Field(
        description="Shrinks weights toward zero, scaled by the learning rate. 0 to 0.1 is usual."
    ),
]
L2Decay = Annotated[
    WeightDecay, Field(description="Shrinks weights toward zero, as part of the gradient (L2).")
]

Beta1 = Annotated[float, Field(ge=0, lt=1), advanced("Beta 1", "momentum betas")]
GradientDecay = Annotated[
    Beta1,
    Field(description="The decay of the mean of the gradient. Higher averages over more steps."),
]
Beta2 = Annotated[float, Field(ge=0, lt=1), advanced("Beta 2", "betas")]
SquareDecay = Annotated[
    Beta2,
    Field(
        description="The decay of the mean of the squared gradient. Higher averages over more"
        " steps."
    ),
]
Beta3 = Annotated[float, Field(ge=0, lt=1), advanced("Beta 3", "betas")]
Momentum = Annotated[float, Field(ge=0, lt=1), advanced("Momentum", "beta")]
Nesterov = Annotated[bool, advanced("Nesterov momentum")]
Eps = Annotated[float, Field(gt=0, le=1), advanced("Epsilon", "eps")]
DivisionEps = Annotated[Eps, Field(description="Avoids division by small gradients.")]
FusedBackward = Annotated[
    bool,
    Field(
        description="Updates each weight during the backward pass, as soon as its gradient is"
        " known, and frees the gradient (step in backward). Saves the memory of all gradients, and"
        " cannot be combined with gradient accumulation or gradient clipping."
    ),
    advanced("Fused backward pass", "fused back pass backward memory vram step"),
]

Options = tuple[tuple[str, object], ...]
"""Arguments of a class with their values."""
DECOUPLED: Options = (("weight_decouple", True),)
"""Decoupled weight decay, as in AdamW, for libraries where it is optional."""
BITS = "bits"
"""The extra with 8-bit and 4-bit states; those of tensors below 4,096 numbers stay in 32 bits."""


class OptimizerSection(Section):
    """The settings and properties of one optimizer.

    Attributes:
        target: The class, "module:Name".
        extra: The extra of this program that installs its package; "" if it is always installed.
        options: Constant arguments.
        betas: The fields that form the argument "betas", if the section has them.
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
    options: ClassVar[Options] = ()
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    names: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    high_lr: ClassVar[float] = 1e-2
    updates_independently: ClassVar[bool]
    is_schedule_free: ClassVar[bool] = False
    is_adaptive: ClassVar[bool] = False
    has_one_rate: ClassVar[bool] = False
    clips_itself: ClassVar[bool] = False
    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        cls.updates_independently = "fused_backward" in cls.model_fields


class AdamSection(OptimizerSection):
    """The settings of Adam and its relatives."""

    lr: Lr = 1e-4
    """The learning rate after warm-up. About 1e-4 for LoRA, 1e-5 for a whole model."""
    weight_decay: DecoupledDecay = 0.01
    beta1: GradientDecay = 0.9
    beta2: SquareDecay = 0.999
    eps: DivisionEps = 1e-8
    fused_backward: FusedBackward = False
