"""What a conversion is asked to do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from onetrainer.config.base import Section
from onetrainer.config.model import FamilyName, PredictionChoice, ZeroSnrChoice

Precision = Literal["keep", "fp32", "fp16", "bf16"]
ModelFormat = Literal["diffusers", "original"]

MODEL_FORMATS: Mapping[ModelFormat, str] = MappingProxyType(
    {
        "diffusers": "a folder with a file for each part of the model",
        "original": "one .safetensors file in the original layout",
    }
)


class ConvertRequest(Section):
    """One file or folder to be made of another."""

    source: str
    """The file or folder to read; it is never changed."""

    target: str
    """The file or folder to write."""

    to: str = ""
    """The format to write, in its own word; empty means what the target's name says."""

    precision: Precision = "keep"
    """The number format of the weights; "keep" leaves each as it is."""

    family: FamilyName | None = None
    """What the source is; None means what its tensors say."""

    prediction: PredictionChoice = "auto"
    """What the model predicts, where the source does not tell."""

    zero_terminal_snr: ZeroSnrChoice = "auto"
    """Whether the noise schedule ends in pure noise, where the source does not tell."""

    vae: str = ""
    """A file or folder whose VAE takes the place of the model's own; empty for its own."""

    ema: bool = False
    """Takes the averaged weights of the UNet, if the file has them."""

    overwrite: bool = False
    """Replaces what is at the target's place."""

    name: str = ""
    """The name to give an embedding; empty for the target's."""
