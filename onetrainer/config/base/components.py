"""Settings of the model's components: whether, how fast and how long each is trained."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.amount import InSteps, Steps
from onetrainer.config.base.section import Section, Ui

Rate = Annotated[float, Field(gt=0, le=10)]
StopAfter = Annotated[Steps, InSteps(0)]


class Unet(Section):
    """The network that predicts the noise."""

    train: Annotated[bool, Ui("Train the UNet", search="unet")] = True
    """Trains the UNet, the network that turns noise into images."""

    lr: Annotated[Rate | None, Ui("UNet learning rate", level="advanced", search="lr unet_lr")] = (
        None
    )
    """The UNet's learning rate; empty means the optimizer's. Empty is usual. Higher trains the UNet
    faster than the rest."""

    stop_after: Annotated[
        StopAfter, Ui("Stop the UNet after", unit="steps", level="advanced", search="freeze")
    ] = 0
    """Freezes the UNet after so many steps, or "2 epochs"; 0 trains it to the end. 0 is usual; less
    keeps more of the base model."""


class TextEncoder(Section):
    """A network that reads captions: "te1" is the family's first."""

    # `encoder_settings` puts the family's own label in place of "text encoder".

    train: Annotated[bool, Ui("Train the text encoder", search="clip openclip te")] = False
    """Also trains the text encoder, which reads captions. Captions are then encoded in every step,
    which takes time."""

    lr: Annotated[
        Rate | None,
        Ui("Text encoder learning rate", level="advanced", search="lr clip text_encoder_lr"),
    ] = None
    """The text encoder's learning rate; empty means the optimizer's. Half of the UNet's or less is
    usual. Higher changes what words mean sooner."""

    stop_after: Annotated[
        StopAfter,
        Ui("Stop the text encoder after", unit="steps", level="advanced", search="freeze"),
    ] = 0
    """Freezes the text encoder after so many steps, or "2 epochs"; 0 trains it to the end. 0, or
    half of the run, is usual; less keeps more of what words meant."""

    caption_dropout: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Text encoder caption dropout",
            level="advanced",
            search="dropout_probability empty caption unconditional clip",
        ),
    ] = 0.0
    """The probability that the text encoder reads an empty caption while the others read the
    image's, trained or not. 0 is usual; with several encoders, 0.1 or more lets prompts work with
    any of them."""


class LayerRule(Section):
    """Settings of the layers whose names match a pattern."""

    pattern: Annotated[
        str,
        Field(min_length=1, max_length=500),
        Ui("Layer pattern", search="regex filter blocks layers named"),
    ] = "attn2"
    """A part of the layers' names, or a regular expression that is searched in them. Names look
    like "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k" and
    "text_encoder.text_model.encoder.layers.0.mlp.fc1"."""

    train: Annotated[bool, Ui("Train")] = True
    """Off freezes these layers."""

    lr: Annotated[Rate | None, Ui("Learning rate")] = None
    """The learning rate of these layers; empty means that of their component. Half or twice that is
    usual. Higher trains these layers more."""


class AdapterLayerRule(LayerRule):
    """Settings of the adapters of layers whose names match a pattern."""

    rank: Annotated[int | None, Field(ge=1, le=1024), Ui("Rank")] = None
    """The rank of these layers' adapters; empty means that of their component. 4 to 64 is usual;
    more can train more detail and makes a larger file."""

    alpha: Annotated[float | None, Field(gt=0, le=1024), Ui("Alpha")] = None
    """The alpha of these layers' adapters; empty means that of their component. The rank or half of
    it is usual; more makes these layers change faster."""


class UnetAdapter(Unet):
    """The network that predicts the noise, and its adapters."""

    rank: Annotated[
        int | None, Field(ge=1, le=1024), Ui("UNet rank", level="advanced", search="dim")
    ] = None
    """The rank of the UNet's adapters; empty means the rank above. Empty is usual; more can train
    more detail and makes a larger file."""

    alpha: Annotated[float | None, Field(gt=0, le=1024), Ui("UNet alpha", level="advanced")] = None
    """The alpha of the UNet's adapters; empty means the alpha above. Empty is usual; more makes the
    UNet change faster."""


class TextEncoderAdapter(TextEncoder):
    """A network that reads captions ("te1" is the family's first), and its adapters."""

    rank: Annotated[
        int | None, Field(ge=1, le=1024), Ui("Text encoder rank", level="advanced", search="dim")
    ] = None
    """The rank of the text encoder's adapters; empty means the rank above. Empty is usual; more can
    train more detail and makes a larger file."""

    alpha: Annotated[
        float | None, Field(gt=0, le=1024), Ui("Text encoder alpha", level="advanced")
    ] = None
    """The alpha of the text encoder's adapters; empty means the alpha above. Empty is usual; more
    makes the text encoder change faster."""
