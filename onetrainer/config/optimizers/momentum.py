"""Relatives of Adam and of momentum, of pytorch_optimizer: Lion, Muon, ADOPT and AdEMAMix."""

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
    Eps,
    FusedBackward,
    Lr,
    Momentum,
    OptimizerSection,
    WeightDecay,
)

Alpha = Annotated[
    float, Field(ge=0, le=100), Ui("Weight of the slow mean", level="advanced", search="alpha")
]
Ramp = Annotated[
    int | None,
    Field(ge=1, le=10_000_000),
    Ui(
        "Ramp of the slow mean",
        unit="steps",
        level="advanced",
        search="t_alpha t_beta3 warmup ademamix",
    ),
]
# Its class has names of its own for what concerns the AdamW in it.
_MUON_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "weight_decay": ("weight_decay", "adamw_wd"),
        "betas": ("adamw_betas",),
        "eps": ("adamw_eps",),
    }
)


class Lion(OptimizerSection):
    """Steps of one size by the sign of the momentum (Chen et al. 2023, arXiv:2302.06675)."""

    title: ClassVar[str] = "Lion"
    target: ClassVar[str] = "pytorch_optimizer:Lion"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    high_lr: ClassVar[float] = 1e-3
    moves_alone: ClassVar[bool] = True
    kind: Literal["lion"] = "lion"

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


class Muon(OptimizerSection):
    """Orthogonal steps for matrices (Jordan et al. 2024), and AdamW for everything else.

    A convolution's weights count as a matrix with a row for each channel that comes out.
    """

    title: ClassVar[str] = "Muon"
    target: ClassVar[str] = "pytorch_optimizer:Muon"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    names: ClassVar[Mapping[str, tuple[str, ...]]] = _MUON_NAMES
    moves_alone: ClassVar[bool] = True
    kind: Literal["muon"] = "muon"

    lr: Lr = 1e-4
    """The step size after warm-up. With steps as large as AdamW's, AdamW's rates fit."""

    other_lr_ratio: Annotated[
        float,
        Field(gt=0, le=1000),
        Ui("Rate of the rest", level="advanced", search="adamw_lr auxiliary adam"),
    ] = 1.0
    """The learning rate of what is no matrix (biases, norms, words), as a multiple of the
    matrices'."""

    use_adjusted_lr: Annotated[
        bool, Ui("Steps as large as AdamW's", level="advanced", search="moonlight rms adjust lr")
    ] = True
    """Makes steps as large as AdamW's would be (Liu et al. 2025, arXiv:2502.16982). Without it the
    rates of the first publication fit, about 0.02."""

    weight_decay: WeightDecay = 0.01
    """How strongly weights are pulled toward zero, per step and learning rate."""

    momentum: Momentum = 0.95
    """How long the mean of the gradient remembers, for matrices."""

    nesterov: Annotated[bool, Ui("Nesterov momentum", level="advanced")] = True
    """Looks ahead along the momentum before each step."""

    ns_steps: Annotated[
        int, Field(ge=1, le=20), Ui("Newton-Schulz iterations", level="advanced", search="ns_steps")
    ] = 5
    """How exactly steps are made orthogonal; more takes more time."""

    beta1: Beta1 = 0.9
    """How long the mean of the gradient remembers, for the rest."""

    beta2: Beta2 = 0.95
    """How long the mean of the squared gradient remembers, for the rest."""

    eps: Eps = 1e-8
    """Keeps the division by a small gradient finite, for the rest."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class Adopt(OptimizerSection):
    """Adam that divides by the gradients before the newest (Taniguchi et al. 2024,
    arXiv:2411.02853): steady whatever beta 2 is.
    """

    title: ClassVar[str] = "ADOPT"
    target: ClassVar[str] = "pytorch_optimizer:ADOPT"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    moves_alone: ClassVar[bool] = True
    kind: Literal["adopt"] = "adopt"

    lr: Lr = 1e-4
    """The step size after warm-up. About the same as AdamW's. The first step only looks."""

    weight_decay: WeightDecay = 0.0
    """How strongly weights are pulled toward zero, per step and learning rate."""

    beta1: Beta1 = 0.9
    """How long the mean of the gradient remembers."""

    beta2: Beta2 = 0.9999
    """How long the mean of the squared gradient remembers."""

    eps: Eps = 1e-6
    """The smallest number that a gradient is divided by."""

    fused_backward: FusedBackward = False
    """Moves each weight as soon as its gradient is known and forgets the gradient, which saves the
    memory of all gradients. Not with accumulation or gradient clipping."""


class AdEMAMix(OptimizerSection):
    """AdamW with a second, slow mean of the gradient (Pagliardini et al. 2024,
    arXiv:2409.03137).
    """

    title: ClassVar[str] = "AdEMAMix"
    target: ClassVar[str] = "pytorch_optimizer:AdEMAMix"
    options: ClassVar[Mapping[str, object]] = DECOUPLED
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "beta3")
    names: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({"ramp": ("t_alpha_beta3",)})
    moves_alone: ClassVar[bool] = True
    kind: Literal["ademamix"] = "ademamix"

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
