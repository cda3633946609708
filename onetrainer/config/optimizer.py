"""How weights move."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base import Section, Ui

Beta = Annotated[float, Field(ge=0, lt=1)]


class AdamW(Section):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2017, arXiv:1711.05101)."""

    kind: Literal["adamw"] = "adamw"
    target: ClassVar[str] = "torch.optim:AdamW"
    # One kernel for all parameters, on the CPU too: a third of the time of torch's default.
    options: ClassVar[Mapping[str, bool]] = MappingProxyType({"fused": True})

    lr: Annotated[float, Field(gt=0, le=10), Ui("Learning rate", search="lr unet rate")] = 1e-4
    """The step size after warm-up. LoRA likes about 1e-4."""

    text_encoder_lr: Annotated[
        float | None,
        Field(gt=0, le=10),
        Ui("Text encoder learning rate", level="advanced", search="lr clip"),
    ] = None
    """The step size for the text encoder; empty means the same as the learning rate."""

    weight_decay: Annotated[float, Field(ge=0, le=1), Ui("Weight decay", level="advanced")] = 0.01
    """How strongly weights are pulled toward zero, per step and learning rate."""

    beta1: Annotated[Beta, Ui("Beta 1", level="advanced", search="momentum")] = 0.9
    """How long the mean of the gradient remembers."""

    beta2: Annotated[Beta, Ui("Beta 2", level="advanced")] = 0.999
    """How long the mean of the squared gradient remembers."""

    eps: Annotated[float, Field(gt=0, le=1), Ui("Epsilon", level="advanced")] = 1e-8
    """Keeps the division by a small gradient finite."""


Optimizer = AdamW
