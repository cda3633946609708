"""Settings of AdamW, Adam and SGD: torch's, and those with 8-bit or 4-bit state."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.optimizers import shared
from onetrainer.config.optimizers.optimizer_section import OptimizerSection, Options
from onetrainer.config.optimizers.shared import advanced

# One kernel for all parameters, on the CPU too: a third of the time of torch's default.
_FUSED: Options = (("fused", True),)


class AdamSection(OptimizerSection):
    """The settings of Adam and its relatives."""

    lr: shared.Lr = 1e-4
    """The learning rate after warm-up. 1e-4 is usual for LoRA, and 1e-5 for a whole model. Higher
    trains faster and spoils images sooner; lower is safer and takes more steps."""
    weight_decay: shared.DecoupledDecay = 0.01
    beta1: shared.GradientDecay = 0.9
    beta2: shared.SquareDecay = 0.999
    eps: shared.DivisionEps = 1e-8
    fused_backward: shared.FusedBackward = False


class AdamW(AdamSection):
    """The usual optimizer: each weight gets a step size of its own from its recent gradients.

    Source: Loshchilov & Hutter 2017, arXiv:1711.05101.
    """

    title = "AdamW"
    target = "torch.optim:AdamW"
    options = _FUSED
    updates_elementwise = True
    kind: Literal["adamw"] = "adamw"


class AdamW8bit(AdamSection):
    """AdamW with a quarter of its memory, at nearly the same result.

    Source: Dettmers et al. 2021, arXiv:2110.02861.
    """

    title = "AdamW, 8-bit"
    target = "bitsandbytes.optim:AdamW8bit"
    kind: Literal["adamw8bit"] = "adamw8bit"


class PagedAdamW8bit(AdamSection):
    """8-bit AdamW whose state moves to RAM when GPU memory runs out (NVIDIA only)."""

    title = "AdamW, 8-bit, paged"
    target = "bitsandbytes.optim:PagedAdamW8bit"
    kind: Literal["paged_adamw8bit"] = "paged_adamw8bit"


class AdamW4bit(AdamSection):
    """AdamW with an eighth of its memory. Source: Li et al. 2023, arXiv:2309.01507."""

    title = "AdamW, 4-bit"
    target = "torchao.optim:AdamW4bit"
    kind: Literal["adamw4bit"] = "adamw4bit"


class Adam(AdamSection):
    """The forerunner of AdamW, with weight decay as part of the gradient.

    Source: Kingma & Ba 2014, arXiv:1412.6980.
    """

    title = "Adam"
    target = "torch.optim:Adam"
    options = _FUSED
    updates_elementwise = True
    kind: Literal["adam"] = "adam"
    weight_decay: shared.L2Decay = 0.0


class Adam8bit(AdamSection):
    """Adam with a quarter of the memory; weight decay is decoupled as in AdamW, by bitsandbytes'
    design.
    """

    title = "Adam, 8-bit"
    target = "bitsandbytes.optim:Adam8bit"
    kind: Literal["adam8bit"] = "adam8bit"
    weight_decay: shared.DecoupledDecay = 0.0


class Adam4bit(AdamSection):
    """Adam with an eighth of the memory; weight decay is part of the gradient."""

    title = "Adam, 4-bit"
    target = "torchao.optim:Adam4bit"
    kind: Literal["adam4bit"] = "adam4bit"
    weight_decay: shared.L2Decay = 0.0


class SgdSection(OptimizerSection):
    """The settings of SGD and its relatives."""

    high_lr = 1.0
    lr: shared.Lr = 0.01
    """The learning rate after warm-up. Updates are not normalized as in Adam, so it has to be found
    by trying: 0.001 to 1 is usual. Higher trains faster and spoils images sooner; lower is safer
    and takes more steps."""
    weight_decay: shared.L2Decay = 0.0


class Sgd(SgdSection):
    """Gradient descent with momentum: the simplest, with the least memory."""

    title = "SGD"
    target = "torch.optim:SGD"
    options = _FUSED
    updates_elementwise = True
    kind: Literal["sgd"] = "sgd"
    momentum: shared.Momentum = 0.9
    """The fraction of the last update that is added to the next; 0 saves its memory. 0.9 is usual;
    more is smoother and turns more slowly."""
    nesterov: shared.Nesterov = False
    """Looks ahead along the momentum before each step. Needs momentum above 0."""
    fused_backward: shared.FusedBackward = False


class Sgd8bit(SgdSection):
    """SGD with 8-bit momentum."""

    title = "SGD, 8-bit"
    target = "bitsandbytes.optim:SGD8bit"
    kind: Literal["sgd8bit"] = "sgd8bit"
    momentum: Annotated[float, Field(gt=0, lt=1), advanced("Momentum", "beta")] = 0.9
    """The fraction of the last update that is added to the next. 0.9 is usual; more is smoother and
    turns more slowly."""
    fused_backward: shared.FusedBackward = False


AdamWs = AdamW | AdamW8bit | PagedAdamW8bit | AdamW4bit
AdamsAndSgds = Adam | Adam8bit | Adam4bit | Sgd | Sgd8bit
