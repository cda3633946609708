"""Training a model's own weights."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.components import LayerRule, TextEncoder, TextEncoder2, Unet
from onetrainer.config.base.section import Section, Ui

WeightPrecision = Literal["fp32", "bf16"]
Weights = Annotated[
    WeightPrecision,
    Ui("Trained weights as", search="dtype precision bf16 float32 memory vram weight_dtype"),
]
Rounding = Annotated[
    bool, Ui("Stochastic rounding", level="advanced", search="bf16 round precision")
]


class Full(Section):
    """Full fine-tuning: every weight of the chosen networks moves."""

    title: ClassVar[str] = "Fine-tuning"
    kind: Literal["full"] = "full"

    weights: Weights = "bf16"
    """The number format in which trained weights are kept. bf16 takes half the memory of fp32."""

    stochastic_rounding: Rounding = True
    """Rounds a bf16 weight up or down by chance, so that small changes add up instead of being
    lost; the chance comes from the seed. Without it bf16 weights hardly move at low rates."""

    unet: Unet = Unet()
    text_encoder: TextEncoder = TextEncoder()
    text_encoder_2: TextEncoder2 = TextEncoder2()

    targets: Annotated[
        Literal["attn", "attn-mlp", "full", "named"],
        Ui(
            "Layers",
            level="advanced",
            search="modules blocks preset freeze filter",
            choices={
                "attn": "attention",
                "attn-mlp": "attention and feed-forward",
                "full": "every layer",
                "named": "only those named below",
            },
        ),
    ] = "full"
    """Which layers move; all others stay frozen: attention only, attention and feed-forward, every
    layer, or only those that "Layers by name" names. Text encoders' tables of tokens and positions
    move only if they are named."""

    layers: Annotated[
        tuple[LayerRule, ...],
        Field(max_length=64),
        Ui("Layers by name", level="advanced", search="pattern regex filter freeze block lr"),
    ] = ()
    """Layers by name, which may get another learning rate, be frozen, or be added to those above.
    The first pattern that matches a layer counts."""


class Vae(Section):
    """Fine-tuning of the VAE's decoder, which turns latents into pictures (SD 1.x and 2.x)."""

    title: ClassVar[str] = "VAE decoder"
    kind: Literal["vae"] = "vae"

    weights: Weights = "fp32"
    """The number format in which trained weights are kept. VAEs need fp32 more than others do."""

    stochastic_rounding: Rounding = True
    """Rounds a bf16 weight up or down by chance, so that small changes add up instead of being
    lost; the chance comes from the seed."""
