"""Metadata by ModelSpec 1.0.1, which many programs show.

Source: Stability AI, "Model Metadata Standard Specification", version 1.0.1.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from onetrainer.config.run.model import FamilyName
from onetrainer.families.registry import family_spec
from onetrainer.families.spec import Prediction

VERSION = "1.0.1"
PREFIX = "modelspec."

FileKind = Literal["model", "lora", "textual-inversion", "vae"]
Layout = Literal["original", "diffusers"]

# The code whose names the tensors have, by the short names that the specification suggests.
IMPLEMENTATIONS: Mapping[Layout, str] = {"original": "sgm", "diffusers": "diffusers"}

_PREDICTIONS: Mapping[Prediction, str] = {"epsilon": "epsilon", "v_prediction": "v", "flow": "flow"}


@dataclass(frozen=True)
class ModelSpec:
    """ModelSpec metadata of one file; empty fields are not written.

    Attributes:
        layout: Whose names the tensors have.
        resolution: (width, height) in pixels of the training.
        encoder_layer: The clip skip to use; 0 for the family's default.
        tags: Separated by commas, as `trigger_words`.
        thumbnail: A small JPEG.
        date: ISO 8601.
        is_negative_embedding: Whether an embedding belongs into negative prompts; None for other
            files.
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
        """Return all fields but the hash, which is computed when the file is written."""
        is_negative, predicts = self.is_negative_embedding, self.kind != "vae"
        fields = {
            "sai_model_spec": VERSION,
            "architecture": architecture(self.family, self.prediction, self.kind),
            "implementation": IMPLEMENTATIONS[self.layout],
            "title": self.title,
            "resolution": "{}x{}".format(*self.resolution),
            "prediction_type": _PREDICTIONS[self.prediction] if predicts else "",
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
        return {PREFIX + key: text for key, text in fields.items() if text}


def architecture(family: FamilyName, prediction: Prediction, kind: FileKind) -> str:
    """Return the specification's name of a file's architecture: "stable-diffusion-v1/lora"."""
    spec = family_spec(family)
    if kind == "vae":
        return spec.vae_architecture
    base = spec.architectures.get(prediction, spec.architecture)
    return base if kind == "model" else f"{base}/{kind}"


TOKEN_RATES = "onetrainer_token_rates"
"""Key of a run's metadata: the learning rate of each trained token, in order."""


def embedding_metadata(metadata: Mapping[str, str], token: str, number: int = 0) -> dict[str, str]:
    """Return a run's metadata for the file of one of its embeddings.

    number: Of the token among those that are trained.

    Its tensors have the original layout's names, independent of the run's LoRA naming; its learning
    rate is the token's own.
    """
    kind: FileKind = "textual-inversion"
    changed = {"name": token}
    if rates := metadata.get(TOKEN_RATES, "").split():
        changed["ss_learning_rate"] = rates[number]
    if base := metadata.get(f"{PREFIX}architecture", "").split("/")[0]:
        changed |= {
            f"{PREFIX}architecture": f"{base}/{kind}",
            f"{PREFIX}implementation": IMPLEMENTATIONS["original"],
            f"{PREFIX}trigger_phrase": token,
        }
    others = {key: value for key, value in metadata.items() if key != TOKEN_RATES}
    return {**others, **changed}


def comma_separated(text: str) -> str:
    """Normalize a comma-separated list, without empty entries."""
    return ", ".join(part.strip() for part in text.split(",") if part.strip())


def _data_url(jpeg: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")
