"""Settings of relatives of Adam and of momentum: Lion, Muon, ADOPT and AdEMAMix."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.optimizers import shared
from onetrainer.config.optimizers.adam import AdamSection
from onetrainer.config.optimizers.optimizer_section import DECOUPLED, OptimizerSection
from onetrainer.config.optimizers.shared import advanced


class LionSection(OptimizerSection):
    """The settings of Lion."""

    high_lr = 1e-3
    lr: shared.Lr = 2e-5
    """The learning rate after warm-up: three to ten times smaller than AdamW's. 2e-5 is usual for
    LoRA. Higher trains faster and spoils images sooner; lower is safer and takes more steps."""
    weight_decay: shared.WeightDecay = 0.0
    """Shrinks weights toward zero, scaled by the learning rate: three to ten times AdamW's. 0 is
    usual for LoRA; more trains less."""
    beta1: shared.Beta1 = 0.9
    """The fraction of the momentum in an update; the rest is the newest gradient. 0.9 is usual;
    higher turns more slowly."""
    beta2: shared.Beta2 = 0.99
    """The decay of the momentum. Higher averages over more steps. 0.99 is usual."""
    fused_backward: shared.FusedBackward = False


class Lion(LionSection):
    """Changes all weights by the same amount, up or down; a third of AdamW's rate is usual.

    Source: Chen et al. 2023, arXiv:2302.06675.
    """

    title = "Lion"
    target = "pytorch_optimizer:Lion"
    options = DECOUPLED
    updates_elementwise = True
    kind: Literal["lion"] = "lion"


class Lion8bit(LionSection):
    """Lion with an eighth of AdamW's memory. Source: Chen et al. 2023, arXiv:2302.06675."""

    title = "Lion, 8-bit"
    target = "bitsandbytes.optim:Lion8bit"
    kind: Literal["lion8bit"] = "lion8bit"


class Muon(OptimizerSection):
    """Changes all directions of a weight matrix equally; AdamW for everything else.

    A convolution's weights are a matrix with one row per output channel. Source: Jordan et al.
    2024.
    """

    title = "Muon"
    target = "pytorch_optimizer:Muon"
    options = DECOUPLED
    # For what concerns the AdamW in it.
    names = (
        ("weight_decay", ("weight_decay", "adamw_wd")),
        ("betas", ("adamw_betas",)),
        ("eps", ("adamw_eps",)),
    )
    kind: Literal["muon"] = "muon"
    lr: shared.Lr = 1e-4
    """The learning rate after warm-up. With adjusted learning rates, AdamW's 1e-4 is usual. Higher
    trains faster and spoils images sooner; lower is safer and takes more steps."""
    other_lr_ratio: Annotated[
        float,
        Field(gt=0, le=1000),
        advanced("AdamW learning rate ratio", "adamw_lr auxiliary adam rest"),
    ] = 1.0
    """The learning rate of all non-matrix weights (biases, norms, embeddings), as a multiple of the
    matrices'. 1 is usual; less trains them more gently."""
    use_adjusted_lr: Annotated[
        bool, advanced("Adjusted learning rate", "moonlight rms adjust lr steps large adamw's")
    ] = True
    """Scales updates to the size of AdamW's. Without it, the rates of the first publication fit,
    about 0.02. Source: Liu et al. 2025, arXiv:2502.16982."""
    weight_decay: shared.DecoupledDecay = 0.01
    momentum: shared.Momentum = 0.95
    """The decay of the mean of the gradient, for matrices. 0.95 is usual; higher averages over more
    steps."""
    nesterov: shared.Nesterov = True
    """Looks ahead along the momentum before each step."""
    ns_steps: Annotated[
        int, Field(ge=1, le=20), advanced("Newton-Schulz iterations", "ns_steps")
    ] = 5
    """How exactly updates are orthogonalized; more takes more time. 5 is usual."""
    beta1: shared.Beta1 = 0.9
    """The decay of the mean of the gradient, for non-matrix weights. 0.9 is usual; higher averages
    over more steps."""
    beta2: shared.Beta2 = 0.95
    """The decay of the mean of the squared gradient, for non-matrix weights. 0.95 is usual; higher
    averages over more steps."""
    eps: shared.Eps = 1e-8
    """Avoids division by small gradients, for non-matrix weights. 1e-8 is usual; more makes small
    updates smaller."""
    fused_backward: shared.FusedBackward = False


class Adopt(AdamSection):
    """Adam that converges with any beta 2: it divides by the gradients before the newest.

    Source: Taniguchi et al. 2024, arXiv:2411.02853.
    """

    title = "ADOPT"
    target = "pytorch_optimizer:ADOPT"
    options = DECOUPLED
    updates_elementwise = True
    kind: Literal["adopt"] = "adopt"
    lr: shared.Lr = 1e-4
    """The learning rate after warm-up. 1e-4 is usual for LoRA, as for AdamW. The first step only
    initializes the state. Higher trains faster and spoils images sooner; lower is safer and
    takes more steps."""
    weight_decay: shared.DecoupledDecay = 0.0
    beta2: shared.SquareDecay = 0.9999
    eps: shared.Eps = 1e-6
    """The smallest number that a gradient is divided by. 1e-6 is usual; more makes small updates
    smaller."""


class AdEMAMixSection(OptimizerSection):
    """The settings of AdEMAMix."""

    betas = ("beta1", "beta2", "beta3")
    lr: shared.Lr = 1e-4
    """The learning rate after warm-up. 1e-4 is usual for LoRA, as for AdamW. Higher
    trains faster and spoils images sooner; lower is safer and takes more steps."""
    weight_decay: shared.DecoupledDecay = 0.01
    beta1: shared.Beta1 = 0.9
    """The decay of the fast mean of the gradient. 0.9 is usual; higher averages over more steps."""
    beta2: shared.SquareDecay = 0.999
    beta3: shared.Beta3 = 0.9999
    """The decay of the slow mean of the gradient. 0.9999 is usual; lower in runs below 10,000
    steps."""
    alpha: Annotated[float, Field(ge=0, le=100), advanced("Slow EMA weight", "alpha mean")] = 5.0
    """The weight of the slow mean compared to the fast one. 2 to 8 is usual; more is steadier and
    turns more slowly."""
    ramp: Annotated[
        int | None,
        Field(ge=1, le=10_000_000),
        advanced("Slow EMA warm-up", "t_alpha t_beta3 warmup ademamix ramp mean", unit="steps"),
    ] = None
    """Phases the slow mean in over this many steps; as many as the run has is usual, more is
    gentler. Empty means at once."""
    eps: shared.DivisionEps = 1e-8
    fused_backward: shared.FusedBackward = False


class AdEMAMix(AdEMAMixSection):
    """AdamW with a second, slow mean of the gradient, for long runs.

    Source: Pagliardini et al. 2024, arXiv:2409.03137.
    """

    title = "AdEMAMix"
    target = "pytorch_optimizer:AdEMAMix"
    options = DECOUPLED
    names = (("ramp", ("t_alpha_beta3",)),)
    updates_elementwise = True
    kind: Literal["ademamix"] = "ademamix"


class AdEMAMix8bit(AdEMAMixSection):
    """AdEMAMix with a quarter of its memory. Source: Pagliardini et al. 2024, arXiv:2409.03137."""

    title = "AdEMAMix, 8-bit"
    target = "bitsandbytes.optim:AdEMAMix8bit"
    names = (("ramp", ("t_alpha", "t_beta3")),)
    kind: Literal["ademamix8bit"] = "ademamix8bit"


MomentumOptimizer = Lion | Lion8bit | Muon | Adopt | AdEMAMix | AdEMAMix8bit
