"""The kinds of model files there are, and what is told of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from onetrainer.config.run.model import FAMILY_LABELS, FamilyName, Prediction

Layout = Literal["folder", "single-file"]
Kind = Literal[
    "sd15", "sd15-inpainting", "sd2", "sd2-inpainting", "sdxl", "sdxl-inpainting", "sdxl-refiner",
    "sd2-depth", "sd3", "flux", "lora", "embedding", "vae", "unet", "text-encoder", "unknown",
]  # fmt: skip

FAMILIES: tuple[FamilyName, ...] = get_args(FamilyName)
NAMES: Mapping[str, str] = {
    **FAMILY_LABELS,
    "sdxl-refiner": "SDXL refiner",
    "sd2-depth": "SD 2 depth",
    "sd3": "SD 3",
    "flux": "Flux",
}
DESCRIPTIONS: Mapping[Kind, str] = {
    "sd15": "an SD 1.5 model",
    "sd15-inpainting": "an SD 1.5 inpainting model",
    "sd2": "an SD 2 model",
    "sd2-inpainting": "an SD 2 inpainting model",
    "sdxl": "an SDXL model",
    "sdxl-inpainting": "an SDXL inpainting model",
    "sdxl-refiner": "an SDXL refiner, which improves another model's pictures",
    "sd2-depth": "an SD 2 model that reads depth",
    "sd3": "an SD 3 model",
    "flux": "a Flux model",
    "lora": "a LoRA, not a whole model",
    "embedding": "an embedding, not a whole model",
    "vae": "a VAE alone, not a whole model",
    "unet": "a UNet alone, not a whole model",
    "text-encoder": "a text encoder alone, not a whole model",
    "unknown": "not a Stable Diffusion model that this version knows",
}
CONTEXT_WIDTHS: Mapping[int, Kind] = {
    768: "sd15",
    1024: "sd2",
    2048: "sdxl",
    1280: "sdxl-refiner",
}
"""How wide the text is that each family's UNet reads."""
PREDICTS: Mapping[Prediction, str] = {"epsilon": "noise", "v_prediction": "velocity"}


@dataclass(frozen=True)
class ModelFile:
    """What was found at a path.

    missing: parts of a whole model that it lacks ("UNet", "VAE", "text encoder", "second text
    encoder"). prediction, zero_terminal_snr: None where nothing in it tells; told_by: what told
    the prediction. prediction_is_sure, zero_snr_is_sure: whether a marker or scheduler config told
    it; what only metadata tells may be overruled. precision: "fp16", "bf16", "fp32" or, of more
    than one, "mixed"; "" if unknown. has_ema: whether it holds averaged weights, besides the others
    or, if the UNet is missing, in place of them. unet_channels: what the UNet reads, 0 if that is
    unknown. made_for: of a part (LoRA, embedding, UNet …), the kind of model it belongs to; None
    for a whole model and where nothing tells. has_unusual_size: whether it is a single file with
    other widths than its family's published models, in which alone single files are opened.
    """

    path: Path
    layout: Layout
    kind: Kind
    missing: tuple[str, ...] = ()
    prediction: Prediction | None = None
    zero_terminal_snr: bool | None = None
    precision: str = ""
    has_ema: bool = False
    unet_channels: int = 0
    made_for: Kind | None = None
    told_by: str = ""
    prediction_is_sure: bool = True
    zero_snr_is_sure: bool = True
    has_unusual_size: bool = False
