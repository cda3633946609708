"""What a file says about itself in the words of ModelSpec 1.0.1, which many programs show.

Source: Stability AI, "Model Metadata Standard Specification", version 1.0.1.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from onetrainer.config.run.model import Base, FamilyName, Prediction, base_of

VERSION = "1.0.1"
PREFIX = "modelspec."

FileKind = Literal["model", "lora", "textual-inversion", "vae"]
Layout = Literal["original", "diffusers"]

# The code whose names the tensors have, by the bare names that the specification suggests.
IMPLEMENTATIONS: Mapping[Layout, str] = MappingProxyType(
    {"original": "sgm", "diffusers": "diffusers"}
)

# The specification names the first four; those for inpainting are the names that ComfyUI and
# SwarmUI use, and for SDXL, where nobody has published one, the same made in the same way.
_ARCHITECTURES: Mapping[FamilyName, str] = MappingProxyType(
    {
        "sd15": "stable-diffusion-v1",
        "sd2": "stable-diffusion-v2-512",
        "sdxl": "stable-diffusion-xl-v1-base",
        "sd15-inpainting": "stable-diffusion-v1-inpainting",
        "sd2-inpainting": "stable-diffusion-v2-inpainting",
        "sdxl-inpainting": "stable-diffusion-xl-v1-inpainting",
    }
)
_SD2_V = "stable-diffusion-v2-768-v"
# A VAE by itself is that of all models with its latents, whatever they predict or paint into; the
# specification has no word for it. These are the names by which SwarmUI knows them.
_VAES: Mapping[Base, str] = MappingProxyType(
    {
        "sd15": "stable-diffusion-v1/vae",
        "sd2": "stable-diffusion-v1/vae",
        "sdxl": "stable-diffusion-xl-v1-base/vae",
    }
)


@dataclass(frozen=True)
class ModelSpec:
    """The facts and words of one file; empty ones are not written.

    layout: whose names the tensors have. resolution: (width, height) in pixels that it was trained
    at. encoder_layer: the clip skip to use, 0 if it is the family's own. tags, trigger_words:
    separated by commas. thumbnail: a small JPEG. date: ISO 8601. is_negative_embedding: whether an
    embedding belongs into negative prompts; None for whatever is no embedding.
    """

    family: FamilyName
    prediction: Prediction
    kind: FileKind
    title: str
    resolution: tuple[int, int]
    layout: Layout = "original"
    encoder_layer: int = 0
    author: str = ""
    description: str = ""
    license: str = ""
    tags: str = ""
    trigger_words: str = ""
    usage_hint: str = ""
    thumbnail: bytes | None = None
    date: str = ""
    is_negative_embedding: bool | None = None

    def fields(self) -> dict[str, str]:
        """Everything but the hash, which whoever writes the file computes."""
        is_negative, predicts = self.is_negative_embedding, self.kind != "vae"
        found = {
            "sai_model_spec": VERSION,
            "architecture": architecture(self.family, self.prediction, self.kind),
            "implementation": IMPLEMENTATIONS[self.layout],
            "title": self.title,
            "resolution": "{}x{}".format(*self.resolution),
            "prediction_type": _predicted(self.prediction) if predicts else "",
            "encoder_layer": str(self.encoder_layer) if self.encoder_layer and predicts else "",
            "author": self.author.strip(),
            "description": self.description.strip(),
            "license": self.license.strip(),
            "tags": comma_separated(self.tags),
            "trigger_phrase": comma_separated(self.trigger_words),
            "usage_hint": self.usage_hint.strip(),
            "thumbnail": _data_url(self.thumbnail) if self.thumbnail else "",
            "date": self.date,
            "is_negative_embedding": "" if is_negative is None else str(is_negative).lower(),
        }
        return {PREFIX + key: text for key, text in found.items() if text}


def architecture(family: FamilyName, prediction: Prediction, kind: FileKind) -> str:
    """The specification's name of what a file is, or is for: "stable-diffusion-v1/lora"."""
    if kind == "vae":
        return _VAES[base_of(family)]
    is_sd2_v = family == "sd2" and prediction == "v_prediction"
    base = _SD2_V if is_sd2_v else _ARCHITECTURES[family]
    return base if kind == "model" else f"{base}/{kind}"


def embedding_metadata(metadata: Mapping[str, str], word: str) -> dict[str, str]:
    """A run's metadata as the file of one of its embeddings tells it: its kind, and its word.

    Its tensors have the original programs' names, whatever a LoRA beside it has.
    """
    kind: FileKind = "textual-inversion"
    changed = {"name": word}
    if base := metadata.get(f"{PREFIX}architecture", "").split("/")[0]:
        changed |= {
            f"{PREFIX}architecture": f"{base}/{kind}",
            f"{PREFIX}implementation": IMPLEMENTATIONS["original"],
            f"{PREFIX}trigger_phrase": word,
        }
    return {**metadata, **changed}


def comma_separated(text: str) -> str:
    """The entries of a list with commas, without what is empty or only spaces."""
    return ", ".join(part.strip() for part in text.split(",") if part.strip())


def _predicted(prediction: Prediction) -> str:
    return "v" if prediction == "v_prediction" else "epsilon"


def _data_url(jpeg: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")
