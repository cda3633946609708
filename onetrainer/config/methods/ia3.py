"""Settings of (IA)³."""

from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.components import LayerRule, TextEncoder, Unet
from onetrainer.config.base.encoders import TextEncoders, every_encoder
from onetrainer.config.methods.adapter_section import (
    RULES,
    AdapterSection,
    ModuleDropout,
    StartFrom,
    Targets,
)


class Ia3(AdapterSection):
    """Trained factors of keys, values and feed-forward activations. Source: Liu et al. 2022."""

    title = "(IA)³"
    noun = "an (IA)³"
    namings = ("kohya",)  # in others its tensors have the names of a model's own weights
    kind: Literal["ia3"] = "ia3"

    targets: Targets = "attn-mlp"
    """Which layers are rescaled: the keys and values of attention, these and the inside of
    feed-forward layers as published, every linear and convolution layer, or only those listed in
    "Layers by name"."""

    unet: Unet = Unet.default()
    text_encoders: TextEncoders = Field(default_factory=partial(every_encoder, TextEncoder))

    layers: Annotated[tuple[LayerRule, ...], Field(max_length=64), RULES] = ()
    """Layers by name, which may get another learning rate, be excluded, or be added to those above.
    The first pattern that matches a layer applies."""

    module_dropout: ModuleDropout = 0.0
    """The probability of each adapter to be dropped in a batch. 0 is usual, up to 0.1; more holds
    on less to single images and trains more slowly."""

    start_from: StartFrom = ""
    """An (IA)³ file to continue from, trained on the same family; empty starts from scratch."""
