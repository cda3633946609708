"""Which model is trained."""

from typing import Annotated, Literal

from onetrainer.config.base import Section, Ui

FamilyName = Literal["sd15"]


class Model(Section):
    """The base model that training starts from."""

    family: Annotated[FamilyName, Ui("Model family", search="architecture version sd")] = "sd15"
    """The architecture of the base model. Stable Diffusion 1.x and its fine-tunes are "sd15"."""

    path: Annotated[str, Ui("Base model", editor="model", search="checkpoint")] = ""
    """A diffusers folder, or a single .safetensors file in the original layout."""
