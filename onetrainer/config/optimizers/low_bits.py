"""Optimizers whose state takes 8 or 4 bits a number, of bitsandbytes and torchao.

State of tensors below 4,096 numbers stays in 32 bits.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Ui
from onetrainer.config.optimizers.momentum import Alpha, Ramp
from onetrainer.config.optimizers.optimizer_section import (
    Beta1,
    Beta2,
    Beta3,
    Eps,
    FusedBackward,
    Lr,
    OptimizerSection,
    WeightDecay,
)

_BITS = "bits"
_RAMP = MappingProxyType({"ramp": ("t_alpha", "t_beta3")})


class AdamW8bit(OptimizerSection):
    """AdamW with a quarter of the memory (Dettmers et al. 2021, arXiv:2110.02861)."""

    title: ClassVar[str] = "AdamW, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:AdamW8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    kind: Literal["adamw8bit"] = "adamw8bit"

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


class PagedAdamW8bit(OptimizerSection):
    """8-bit AdamW whose state moves to main memory when video memory runs out (NVIDIA only)."""

    title: ClassVar[str] = "AdamW, 8-bit, paged"
    target: ClassVar[str] = "bitsandbytes.optim:PagedAdamW8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    kind: Literal["paged_adamw8bit"] = "paged_adamw8bit"

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


class Adam8bit(OptimizerSection):
    """Adam with a quarter of the memory; weight decay works as in AdamW, as bitsandbytes has it."""

    title: ClassVar[str] = "Adam, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:Adam8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    kind: Literal["adam8bit"] = "adam8bit"

    lr: Lr = 1e-4
    """The step size after warm-up. LoRA likes about 1e-4, a whole model about 1e-5."""

    weight_decay: WeightDecay = 0.0
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


class Lion8bit(OptimizerSection):
    """Lion with an eighth of AdamW's memory (Chen et al. 2023, arXiv:2302.06675)."""

    title: ClassVar[str] = "Lion, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:Lion8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    high_lr: ClassVar[float] = 1e-3
    moves_alone: ClassVar[bool] = True
    kind: Literal["lion8bit"] = "lion8bit"

    lr: Lr = 2e-5
    """The step size after warm-up: three to ten times smaller than AdamW's."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and learning rate: three to ten times
    AdamW's."""

    beta1: Beta1 = 0.9
    """How much of the momentum decides a step; the rest is the newest gradient."""

    beta2: Beta2 = 0.99
    """How long the momentum remembers."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class AdEMAMix8bit(OptimizerSection):
    """AdEMAMix with 8-bit state (Pagliardini et al. 2024, arXiv:2409.03137)."""

    title: ClassVar[str] = "AdEMAMix, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:AdEMAMix8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "beta3")
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _RAMP
    moves_alone: ClassVar[bool] = True
    kind: Literal["ademamix8bit"] = "ademamix8bit"

    lr: Lr = 1e-4
    """The step size after warm-up. About the same as AdamW's."""

    weight_decay: WeightDecay = 0.01
    """How strongly weights are pulled toward zero, per step and learning rate."""

    beta1: Beta1 = 0.9
    """How long the fast mean of the gradient remembers."""

    beta2: Beta2 = 0.999
    """How long the mean of the squared gradient remembers."""

    beta3: Beta3 = 0.9999
    """How long the slow mean of the gradient remembers."""

    alpha: Alpha = 5.0
    """How much the slow mean counts beside the fast one."""

    ramp: Ramp = None
    """Over so many steps the slow mean comes in; the paper takes all steps of the run. Empty means
    at once."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class Sgd8bit(OptimizerSection):
    """SGD whose momentum takes 8 bits a number."""

    title: ClassVar[str] = "SGD, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:SGD8bit"
    extra: ClassVar[str] = _BITS
    high_lr: ClassVar[float] = 1.0
    moves_alone: ClassVar[bool] = True
    kind: Literal["sgd8bit"] = "sgd8bit"

    lr: Lr = 0.01
    """The step size after warm-up. It is not divided by the gradient's size as in Adam, so that it
    has to be found by trying: from 0.001 to 1."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, through the gradient."""

    momentum: Annotated[
        float, Field(gt=0, lt=1), Ui("Momentum", level="advanced", search="beta")
    ] = 0.9
    """How much of the last step goes on in the next."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class AdamW4bit(OptimizerSection):
    """AdamW with an eighth of the memory (Li et al. 2023, arXiv:2309.01507)."""

    title: ClassVar[str] = "AdamW, 4-bit"
    target: ClassVar[str] = "torchao.optim:AdamW4bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    kind: Literal["adamw4bit"] = "adamw4bit"

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


class Adam4bit(OptimizerSection):
    """Adam with an eighth of the memory, weight decay being part of the gradient."""

    title: ClassVar[str] = "Adam, 4-bit"
    target: ClassVar[str] = "torchao.optim:Adam4bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    kind: Literal["adam4bit"] = "adam4bit"

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
