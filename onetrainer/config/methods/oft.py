"""Settings of orthogonal fine-tuning."""

from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.components import LayerRule, TextEncoder, Unet
from onetrainer.config.base.encoders import TextEncoders, every_encoder
from onetrainer.config.base.section import Ui
from onetrainer.config.methods.adapter_section import (
    RULES,
    AdapterSection,
    ModuleDropout,
    StartFrom,
    Targets,
)


class Oft(AdapterSection):
    """Rotates the outputs of each layer in blocks, which keeps what the model knows.

    Source: Qiu et al. 2023.
    """

    title = "OFT"
    noun = "an OFT"
    kind: Literal["oft"] = "oft"

    block_size: Annotated[
        int, Field(ge=2, le=128), Ui("Block size", search="oft dim rank network blocks")
    ] = 32
    """How many outputs at most are rotated together. Each layer uses the nearest divisor of its
    outputs, and no more than it has blocks. More can train more and makes a larger file. 32 is
    usual."""

    constraint: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Constraint", level="advanced", search="oft coft limit alpha"),
    ] = 0.0
    """How far each layer may rotate, per output, such as 0.0001; 0 means no limit. 0 is usual; less
    stays closer to the base model."""

    targets: Targets = "attn-mlp"
    """Which layers get an adapter: attention only, attention and feed-forward, every linear and
    convolution layer, or only those listed in "Layers by name"."""

    unet: Unet = Unet.default()
    text_encoders: TextEncoders = Field(default_factory=partial(every_encoder, TextEncoder))

    layers: Annotated[tuple[LayerRule, ...], Field(max_length=64), RULES] = ()
    """Layers by name, which may get another learning rate, be excluded, or be added to those above.
    The first pattern that matches a layer applies."""

    module_dropout: ModuleDropout = 0.0
    """The probability of each adapter to be dropped in a batch. 0 is usual, up to 0.1; more holds
    on less to single images and trains more slowly."""

    start_from: StartFrom = ""
    """An OFT file to continue from, with the same blocks, trained on the same family; empty starts
    from scratch."""
