"""Settings that several optimizers share, with their usual sentences.

A section that gives a setting another sentence takes the bare type (`Beta1`) and writes it below.
"""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Ui


def advanced(label: str, search: str = "", *, unit: str = "") -> Ui:
    """Return the display properties of an advanced setting."""
    return Ui(label, unit=unit, level="advanced", search=search)


Decay = Annotated[float, Field(ge=0, lt=1)]
Small = Annotated[float, Field(gt=0, le=1)]

Lr = Annotated[float, Field(gt=0, le=10), Ui("Learning rate", search="lr unet rate")]
WeightDecay = Annotated[float, Field(ge=0, le=10), advanced("Weight decay", "l2 regularization")]
DecoupledDecay = Annotated[
    WeightDecay,
    Field(
        description="Shrinks weights toward zero, scaled by the learning rate. 0 to 0.1 is "
        "usual. More holds on less to single images, and trains less."
    ),
]
L2Decay = Annotated[
    WeightDecay,
    Field(
        description="Shrinks weights toward zero, as part of the gradient (L2). 0 is usual, "
        "up to 0.01; more trains less."
    ),
]

Beta1 = Annotated[Decay, advanced("Beta 1", "momentum betas")]
GradientDecay = Annotated[
    Beta1,
    Field(
        description="The decay of the mean of the gradient. Higher averages over more "
        "steps. 0.9 is usual."
    ),
]
Beta2 = Annotated[Decay, advanced("Beta 2", "betas")]
SquareDecay = Annotated[
    Beta2,
    Field(
        description="The decay of the mean of the squared gradient. Higher averages over "
        "more steps. 0.99 to 0.999 is usual."
    ),
]
Beta3 = Annotated[Decay, advanced("Beta 3", "betas")]
Momentum = Annotated[Decay, advanced("Momentum", "beta")]
Nesterov = Annotated[bool, advanced("Nesterov momentum")]
Eps = Annotated[Small, advanced("Epsilon", "eps")]
DivisionEps = Annotated[
    Eps,
    Field(
        description="Avoids division by small gradients. The default is usual; more makes "
        "small updates smaller."
    ),
]
FusedBackward = Annotated[
    bool,
    Field(
        description="Updates each weight during the backward pass, as soon as its gradient is"
        " known, and frees the gradient (step in backward). Saves the memory of all gradients, and"
        " cannot be combined with gradient accumulation or gradient clipping."
    ),
    advanced("Fused backward pass", "fused back pass backward memory vram step"),
]
