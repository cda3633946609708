"""Settings of torch's Adam, AdamW and SGD."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from onetrainer.config.base.section import Ui
from onetrainer.config.optimizers.optimizer_section import (
    Beta1,
    Beta2,
    Eps,
    FusedBackward,
    Lr,
    Momentum,
    OptimizerSection,
    WeightDecay,
)

# One kernel for all parameters, on the CPU too: a third of the time of torch's default.
_FUSED: Mapping[str, object] = MappingProxyType({"fused": True})


class AdamW(OptimizerSection):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2017, arXiv:1711.05101)."""

    title: ClassVar[str] = "AdamW"
    target: ClassVar[str] = "torch.optim:AdamW"
    options: ClassVar[Mapping[str, object]] = _FUSED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    kind: Literal["adamw"] = "adamw"

    lr: Lr = 1e-4
    """The learning rate after warm-up. About 1e-4 for LoRA, 1e-5 for a whole model."""

    weight_decay: WeightDecay = 0.01
    """Shrinks weights toward zero, scaled by the learning rate. 0 to 0.1 is usual."""

    beta1: Beta1 = 0.9
    """The decay of the mean of the gradient. Higher averages over more steps."""

    beta2: Beta2 = 0.999
    """The decay of the mean of the squared gradient. Higher averages over more steps."""

    eps: Eps = 1e-8
    """Avoids division by small gradients."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class Adam(OptimizerSection):
    """Adam, with weight decay as part of the gradient (Kingma & Ba 2014, arXiv:1412.6980)."""

    title: ClassVar[str] = "Adam"
    target: ClassVar[str] = "torch.optim:Adam"
    options: ClassVar[Mapping[str, object]] = _FUSED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    kind: Literal["adam"] = "adam"

    lr: Lr = 1e-4
    """The learning rate after warm-up. About 1e-4 for LoRA, 1e-5 for a whole model."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, as part of the gradient (L2)."""

    beta1: Beta1 = 0.9
    """The decay of the mean of the gradient. Higher averages over more steps."""

    beta2: Beta2 = 0.999
    """The decay of the mean of the squared gradient. Higher averages over more steps."""

    eps: Eps = 1e-8
    """Avoids division by small gradients."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class Sgd(OptimizerSection):
    """Gradient descent with momentum: the simplest, with the least memory."""

    title: ClassVar[str] = "SGD"
    target: ClassVar[str] = "torch.optim:SGD"
    options: ClassVar[Mapping[str, object]] = _FUSED
    high_lr: ClassVar[float] = 1.0
    updates_independently: ClassVar[bool] = True
    kind: Literal["sgd"] = "sgd"

    lr: Lr = 0.01
    """The learning rate after warm-up. Updates are not normalized as in Adam, so it has to be found
    by trying: from 0.001 to 1."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, as part of the gradient (L2)."""

    momentum: Momentum = 0.9
    """The fraction of the last update that is added to the next; 0 saves its memory."""

    nesterov: Annotated[bool, Ui("Nesterov momentum", level="advanced")] = False
    """Looks ahead along the momentum before each step. Needs momentum above 0."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""
