"""The kinds of model files and the description of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetrainer.families.registry import FamilyTexts
from onetrainer.families.spec import Prediction

Layout = Literal["folder", "single-file"]
Kind = str
"""The name of a family or of another recognized model, or one of `DESCRIPTIONS`."""

NAMES = FamilyTexts(lambda spec: spec.label, is_recognizing=True)
DESCRIPTIONS = FamilyTexts(
    lambda spec: spec.description,
    {
        "lora": "a LoRA, not a complete model",
        "embedding": "an embedding, not a complete model",
        "vae": "a VAE alone, not a complete model",
        "unet": "a UNet alone, not a complete model",
        "text-encoder": "a text encoder alone, not a complete model",
        "unknown": "not a Stable Diffusion model known to this version",
    },
    is_recognizing=True,
)
PREDICTS: Mapping[Prediction, str] = {
    "epsilon": "noise",
    "v_prediction": "velocity",
    "flow": "the velocity of a flow",
}


@dataclass(frozen=True)
class ModelFile:
    """The description of a model file or folder.

    missing: Labels of absent components: "UNet", "VAE", "text encoder" …. prediction,
    zero_terminal_snr: None if unknown; prediction_source: What states the prediction.
    zero_snr_is_sure: Whether a marker or scheduler config states it; metadata alone may be
    overruled. precision: "fp16", "bf16", "fp32", "mixed", or "" if unknown. has_ema:
    Whether it has EMA weights, in addition to the others or, if the UNet is missing, instead of
    them.
    unet_channels: Input channels of the UNet, 0 if unknown. made_for: For a component or addition
    (LoRA, embedding, UNet …), the model that it belongs to; None for a complete model or if
    unknown.
    has_unusual_size: Whether it is a single file with other widths than its family's published
    models, and without configs, so that it cannot be opened. stored_configs: The configs in a
    single file, see `CONFIGS_KEY`; "" if it has none. problems: Labels of components that are not
    whole, and why.
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
    prediction_source: str = ""
    zero_snr_is_sure: bool = True
    has_unusual_size: bool = False
    stored_configs: str = ""
    problems: tuple[tuple[str, str], ...] = ()
