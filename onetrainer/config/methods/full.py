"""Settings for training a model's own weights."""

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.components import LayerRule, TextEncoder, Unet
from onetrainer.config.base.encoders import TextEncoders, every_encoder
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.methods.adapter_section import TARGET_LABELS

WeightPrecision = Literal["fp32", "bf16"]
Weights = Annotated[
    WeightPrecision,
    Ui(
        "Weight precision",
        search="dtype precision bf16 float32 memory vram weight_dtype trained weights",
    ),
]
Rounding = Annotated[
    bool, Ui("Stochastic rounding", level="advanced", search="bf16 round precision")
]


class Full(Section):
    """Full fine-tuning: trains every weight of the chosen components."""

    title: ClassVar[str] = "Fine-tuning"
    noun: ClassVar[str] = "the full model"
    kind: Literal["full"] = "full"

    weights: Weights = "bf16"
    """The number format of the trained weights. bf16 takes half the memory of fp32."""

    stochastic_rounding: Rounding = True
    """Rounds a bf16 weight up or down at random (from the seed), so that small updates add up and
    are not lost. Without it, bf16 weights hardly change at low learning rates."""

    unet: Unet = Unet.default()
    text_encoders: TextEncoders = Field(default_factory=partial(every_encoder, TextEncoder))

    targets: Annotated[
        Literal["attn", "attn-mlp", "full", "named"],
        Ui(
            "Layers",
            level="advanced",
            search="modules blocks preset freeze filter",
            choices=TARGET_LABELS,
        ),
    ] = "full"
    """Which layers are trained; all others are frozen: attention only, attention and feed-forward,
    every layer, or only those listed in "Layers by name". The text encoders' token and position
    tables are trained only if they are listed."""

    layers: Annotated[
        tuple[LayerRule, ...],
        Field(max_length=64),
        Ui("Layers by name", level="advanced", search="pattern regex filter freeze block lr"),
    ] = ()
    """Layers by name, which may get another learning rate, be frozen, or be added to those above.
    The first pattern that matches a layer applies."""


class Vae(Section):
    """Fine-tuning of the VAE's decoder, which turns latents into images (SD 1.x and 2.x)."""

    title: ClassVar[str] = "VAE decoder"
    noun: ClassVar[str] = "the decoder of the VAE"
    kind: Literal["vae"] = "vae"

    weights: Weights = "fp32"
    """The number format of the trained weights. VAEs need fp32 more than other components."""

    stochastic_rounding: Rounding = True
    """Rounds a bf16 weight up or down at random (from the seed), so that small updates add up and
    are not lost."""
