"""The networks of a model as the methods know them: which are trained, how fast, how long."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Rate = Annotated[float, Field(gt=0, le=10)]
StopAfter = Annotated[int, Field(ge=0, le=10_000_000)]
# The families with a second text encoder.
_SDXL = {"model.family": ("sdxl", "sdxl-inpainting")}


class Unet(Section):
    """The network that draws."""

    train: Annotated[bool, Ui("Train the UNet", search="unet")] = True
    """Trains the network that turns noise into pictures, step by step."""

    lr: Annotated[Rate | None, Ui("UNet learning rate", level="advanced", search="lr unet_lr")] = (
        None
    )
    """The UNet's step size; empty means the optimizer's learning rate."""

    stop_after: Annotated[
        StopAfter, Ui("Stop the UNet after", unit="steps", level="advanced", search="freeze")
    ] = 0
    """From this step on the UNet stays as it is; 0 means that it trains to the end."""


class TextEncoder(Section):
    """The network that reads captions; the first of two in SDXL."""

    train: Annotated[bool, Ui("Train the text encoder", search="clip te text encoder")] = False
    """Trains the network that reads captions, too; in SDXL the smaller one of two. Captions are
    then encoded anew in every step."""

    lr: Annotated[
        Rate | None,
        Ui("Text encoder learning rate", level="advanced", search="lr clip text_encoder_lr"),
    ] = None
    """The text encoder's step size; empty means the optimizer's learning rate."""

    stop_after: Annotated[
        StopAfter,
        Ui("Stop the text encoder after", unit="steps", level="advanced", search="freeze"),
    ] = 0
    """From this step on the text encoder stays as it is; 0 means that it trains to the end."""


class TextEncoder2(Section):
    """The larger one of SDXL's networks that read captions."""

    train: Annotated[
        bool,
        Ui(
            "Train the second text encoder",
            search="clip te2 text encoder sdxl openclip",
            only_with=_SDXL,
        ),
    ] = False
    """Trains SDXL's larger text encoder, too. Other families have only one."""

    lr: Annotated[
        Rate | None,
        Ui(
            "Second text encoder learning rate",
            level="advanced",
            search="lr clip te2",
            only_with=_SDXL,
        ),
    ] = None
    """The second text encoder's step size; empty means the optimizer's learning rate."""

    stop_after: Annotated[
        StopAfter,
        Ui(
            "Stop the second text encoder after",
            unit="steps",
            level="advanced",
            search="freeze",
            only_with=_SDXL,
        ),
    ] = 0
    """From this step on the second text encoder stays as it is; 0 means that it trains to the
    end."""


class LayerRule(Section):
    """What holds for the layers whose names match a pattern."""

    pattern: Annotated[
        str,
        Field(min_length=1, max_length=500),
        Ui("Layers named", search="regex filter blocks"),
    ] = "attn2"
    """A part of the layers' names, or a regular expression that is found in them. Names are like
    "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k" and
    "text_encoder.text_model.encoder.layers.0.mlp.fc1"."""

    train: Annotated[bool, Ui("Train them")] = True
    """Off leaves these layers as they are."""

    lr: Annotated[Rate | None, Ui("Learning rate")] = None
    """The step size of these layers; empty means that of their network."""


class AdapterLayerRule(LayerRule):
    """What holds for the adapters of layers whose names match a pattern."""

    rank: Annotated[int | None, Field(ge=1, le=1024), Ui("Rank")] = None
    """The rank of these layers' adapters; empty means that of their network."""

    alpha: Annotated[float | None, Field(gt=0, le=1024), Ui("Alpha")] = None
    """The alpha of these layers' adapters; empty means that of their network."""


class UnetAdapter(Unet):
    """The network that draws, and its adapters."""

    rank: Annotated[
        int | None, Field(ge=1, le=1024), Ui("UNet rank", level="advanced", search="dim")
    ] = None
    """The rank of the UNet's adapters; empty means the rank above."""

    alpha: Annotated[float | None, Field(gt=0, le=1024), Ui("UNet alpha", level="advanced")] = None
    """The alpha of the UNet's adapters; empty means the alpha above."""


class TextEncoderAdapter(TextEncoder):
    """The network that reads captions, and its adapters."""

    rank: Annotated[
        int | None, Field(ge=1, le=1024), Ui("Text encoder rank", level="advanced", search="dim")
    ] = None
    """The rank of the text encoder's adapters; empty means the rank above."""

    alpha: Annotated[
        float | None, Field(gt=0, le=1024), Ui("Text encoder alpha", level="advanced")
    ] = None
    """The alpha of the text encoder's adapters; empty means the alpha above."""


class TextEncoder2Adapter(TextEncoder2):
    """The larger one of SDXL's networks that read captions, and its adapters."""

    rank: Annotated[
        int | None,
        Field(ge=1, le=1024),
        Ui("Second text encoder rank", level="advanced", search="dim te2", only_with=_SDXL),
    ] = None
    """The rank of the second text encoder's adapters; empty means the rank above."""

    alpha: Annotated[
        float | None,
        Field(gt=0, le=1024),
        Ui("Second text encoder alpha", level="advanced", only_with=_SDXL),
    ] = None
    """The alpha of the second text encoder's adapters; empty means the alpha above."""
