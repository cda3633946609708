"""Settings of the base model."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from onetrainer.config.base.section import Section, Ui
from onetrainer.families.registry import FAMILIES, FAMILY_LABELS, require_known

FamilyName = Annotated[
    str,
    AfterValidator(require_known),
    WithJsonSchema({"enum": list(FAMILY_LABELS), "type": "string"}),
]
PredictionChoice = Literal["auto", "epsilon", "v_prediction"]
ZeroSnrChoice = Literal["auto", "on", "off"]

PREDICTION_LABELS: Mapping[str, str] = {
    "auto": "automatic",
    "epsilon": "epsilon",
    "v_prediction": "v-prediction",
}


class Model(Section):
    """The base model that training starts from."""

    family: Annotated[
        FamilyName, Ui("Model family", search="architecture version sd", choices=FAMILY_LABELS)
    ] = FAMILIES[0].name
    """The architecture of the base model. SD 1.5 stands for all of 1.x, SD 2 for 2.0 and 2.1."""

    path: Annotated[str, Ui("Base model", editor="model", search="checkpoint hub")] = ""
    """A diffusers folder, a single file in the original layout (.safetensors or .ckpt), or the name
    of a model on the Hugging Face Hub."""

    vae: Annotated[
        str, Ui("Custom VAE", level="advanced", editor="model", search="autoencoder other")
    ] = ""
    """A VAE to use in place of the model's own: a file or a diffusers folder. Empty means the
    model's own."""

    prediction: Annotated[
        PredictionChoice,
        Ui(
            "Prediction",
            level="advanced",
            search="v-prediction epsilon vpred",
            choices=PREDICTION_LABELS,
        ),
    ] = "auto"
    """What the model predicts: noise ("epsilon") or velocity ("v_prediction"). "auto" reads it from
    the model; set it for files that say nothing or something wrong, or to train another prediction,
    which takes a fine-tuning of thousands of steps."""

    zero_terminal_snr: Annotated[
        ZeroSnrChoice,
        Ui(
            "Zero terminal SNR",
            level="advanced",
            search="ztsnr schedule",
            choices={"auto": "automatic"},
        ),
    ] = "auto"
    """Whether the noise schedule ends in pure noise. "auto" reads it from the model."""

    clip_skip: Annotated[
        int, Field(ge=0, le=12), Ui("Clip skip", level="advanced", search="text encoder layer")
    ] = 0
    """Which layer of the text encoder is used, counted from the end as inference programs do: 1 is
    the last. 0 is the layer that the model was trained with. 0 is usual; 2 for many SD 1.5 models
    of drawings. More reads captions less exactly."""

    circular_padding: Annotated[
        bool,
        Ui("Circular padding", level="advanced", search="seamless texture tiling tileable wrap"),
    ] = False
    """For seamless textures: the convolutions of UNet and VAE wrap around the edges, in training
    and in samples. Turn it on for images whose opposite edges continue each other, without crops or
    rotation; other programs must generate with their own tiling option. Off is usual."""

    offline: Annotated[bool, Ui("Offline", level="advanced", search="hub never use network")] = (
        False
    )
    """Never uses the network: a model from the Hub is then taken from earlier downloads."""
