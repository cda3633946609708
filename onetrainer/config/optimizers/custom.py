"""Settings of an optimizer that this program does not know."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.arguments import Arguments
from onetrainer.config.base.section import Ui
from onetrainer.config.optimizers import shared
from onetrainer.config.optimizers.optimizer_section import OptimizerSection


class CustomOptimizer(OptimizerSection):
    """An optimizer class of an installed package, or of a file of your own."""

    title = "custom class"
    high_lr = 10.0  # its usual rates are not known
    kind: Literal["custom"] = "custom"
    lr: shared.Lr = 1e-4
    """The learning rate after warm-up, passed to the class as "lr"; 1 is usual for classes that
    find it themselves. Higher trains faster and spoils images sooner; lower is safer and takes more
    steps."""
    function: Annotated[
        str,
        Field(max_length=1000),
        Ui("Class", editor="function", search="optimizer_type dotted python own"),
    ] = ""
    """A subclass of torch.optim.Optimizer, as "package.module.Class" of an installed package or as
    "file.py:Class". Its code runs only after you have trusted it. The memory forecast counts it as
    AdamW."""
    arguments: Arguments = ""
