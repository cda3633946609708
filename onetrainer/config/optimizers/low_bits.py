"""Settings of optimizers with 8-bit or 4-bit state, of bitsandbytes and torchao.

The state of tensors below 4,096 numbers stays in 32 bits.
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
    updates_independently: ClassVar[bool] = True
    kind: Literal["adamw8bit"] = "adamw8bit"

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


class PagedAdamW8bit(OptimizerSection):
    """8-bit AdamW whose state moves to RAM when GPU memory runs out (NVIDIA only)."""

    title: ClassVar[str] = "AdamW, 8-bit, paged"
    target: ClassVar[str] = "bitsandbytes.optim:PagedAdamW8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    kind: Literal["paged_adamw8bit"] = "paged_adamw8bit"

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


class Adam8bit(OptimizerSection):
    """Adam with a quarter of the memory; weight decay is decoupled as in AdamW, by bitsandbytes'
    design.
    """

    title: ClassVar[str] = "Adam, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:Adam8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    kind: Literal["adam8bit"] = "adam8bit"

    lr: Lr = 1e-4
    """The learning rate after warm-up. About 1e-4 for LoRA, 1e-5 for a whole model."""

    weight_decay: WeightDecay = 0.0
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


class Lion8bit(OptimizerSection):
    """Lion with an eighth of AdamW's memory (Chen et al. 2023, arXiv:2302.06675)."""

    title: ClassVar[str] = "Lion, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:Lion8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    high_lr: ClassVar[float] = 1e-3
    updates_independently: ClassVar[bool] = True
    kind: Literal["lion8bit"] = "lion8bit"

    lr: Lr = 2e-5
    """The learning rate after warm-up: three to ten times smaller than AdamW's."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the learning rate: three to ten times AdamW's."""

    beta1: Beta1 = 0.9
    """The share of the momentum in an update; the rest is the newest gradient."""

    beta2: Beta2 = 0.99
    """The decay of the momentum. Higher averages over more steps."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class AdEMAMix8bit(OptimizerSection):
    """AdEMAMix with 8-bit state (Pagliardini et al. 2024, arXiv:2409.03137)."""

    title: ClassVar[str] = "AdEMAMix, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:AdEMAMix8bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "beta3")
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _RAMP
    updates_independently: ClassVar[bool] = True
    kind: Literal["ademamix8bit"] = "ademamix8bit"

    lr: Lr = 1e-4
    """The learning rate after warm-up. About the same as AdamW's."""

    weight_decay: WeightDecay = 0.01
    """Shrinks weights toward zero, scaled by the learning rate. 0 to 0.1 is usual."""

    beta1: Beta1 = 0.9
    """The decay of the fast mean of the gradient."""

    beta2: Beta2 = 0.999
    """The decay of the mean of the squared gradient. Higher averages over more steps."""

    beta3: Beta3 = 0.9999
    """The decay of the slow mean of the gradient."""

    alpha: Alpha = 5.0
    """The weight of the slow mean compared to the fast one."""

    ramp: Ramp = None
    """Phases the slow mean in over so many steps; the paper uses all steps of the run. Empty means
    at once."""

    eps: Eps = 1e-8
    """Avoids division by small gradients."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class Sgd8bit(OptimizerSection):
    """SGD with 8-bit momentum."""

    title: ClassVar[str] = "SGD, 8-bit"
    target: ClassVar[str] = "bitsandbytes.optim:SGD8bit"
    extra: ClassVar[str] = _BITS
    high_lr: ClassVar[float] = 1.0
    updates_independently: ClassVar[bool] = True
    kind: Literal["sgd8bit"] = "sgd8bit"

    lr: Lr = 0.01
    """The learning rate after warm-up. Updates are not normalized as in Adam, so it has to be found
    by trying: from 0.001 to 1."""

    weight_decay: WeightDecay = 0.0
    """Shrinks weights toward zero, as part of the gradient (L2)."""

    momentum: Annotated[
        float, Field(gt=0, lt=1), Ui("Momentum", level="advanced", search="beta")
    ] = 0.9
    """The fraction of the last update that is added to the next."""

    fused_backward: FusedBackward = False
    """Updates each weight during the backward pass, as soon as its gradient is known, and frees the
    gradient (step in backward). Saves the memory of all gradients, and cannot be combined with
    gradient accumulation or gradient clipping."""


class AdamW4bit(OptimizerSection):
    """AdamW with an eighth of the memory (Li et al. 2023, arXiv:2309.01507)."""

    title: ClassVar[str] = "AdamW, 4-bit"
    target: ClassVar[str] = "torchao.optim:AdamW4bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    kind: Literal["adamw4bit"] = "adamw4bit"

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


class Adam4bit(OptimizerSection):
    """Adam with an eighth of the memory; weight decay is part of the gradient."""

    title: ClassVar[str] = "Adam, 4-bit"
    target: ClassVar[str] = "torchao.optim:Adam4bit"
    extra: ClassVar[str] = _BITS
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    updates_independently: ClassVar[bool] = True
    kind: Literal["adam4bit"] = "adam4bit"

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
