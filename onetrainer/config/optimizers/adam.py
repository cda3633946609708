"""Adam, AdamW and SGD of torch."""

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
    moves_alone: ClassVar[bool] = True
    kind: Literal["adamw"] = "adamw"

    lr: Lr = 1e-4
    """The step size after warm-up. LoRA likes about 1e-4, a whole model about 1e-5."""

    weight_decay: WeightDecay = 0.01
    """How strongly weights are pulled toward zero, per step and learning rate."""

    beta1: Beta1 = 0.9
    """How long the mean of the gradient remembers."""

    beta2: Beta2 = 0.999
    """How long the mean of the squared gradient remembers."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class Adam(OptimizerSection):
    """Adam, with weight decay as part of the gradient (Kingma & Ba 2014, arXiv:1412.6980)."""

    title: ClassVar[str] = "Adam"
    target: ClassVar[str] = "torch.optim:Adam"
    options: ClassVar[Mapping[str, object]] = _FUSED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    kind: Literal["adam"] = "adam"

    lr: Lr = 1e-4
    """The step size after warm-up. LoRA likes about 1e-4, a whole model about 1e-5."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, through the gradient."""

    beta1: Beta1 = 0.9
    """How long the mean of the gradient remembers."""

    beta2: Beta2 = 0.999
    """How long the mean of the squared gradient remembers."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class Sgd(OptimizerSection):
    """Gradient descent with momentum: the plainest, with the least memory."""

    title: ClassVar[str] = "SGD"
    target: ClassVar[str] = "torch.optim:SGD"
    options: ClassVar[Mapping[str, object]] = _FUSED
    high_lr: ClassVar[float] = 1.0
    moves_alone: ClassVar[bool] = True
    kind: Literal["sgd"] = "sgd"

    lr: Lr = 0.01
    """The step size after warm-up. It is not divided by the gradient's size as in Adam, so that it
    has to be found by trying: from 0.001 to 1."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, through the gradient."""

    momentum: Momentum = 0.9
    """How much of the last step goes on in the next; 0 saves its memory."""

    nesterov: Annotated[bool, Ui("Nesterov momentum", level="advanced")] = False
    """Looks ahead along the momentum before each step. Needs momentum above 0."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""
