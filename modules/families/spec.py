"""Specification of a Stable Diffusion base: what distinguishes it from the others, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from modules.formats.files.component_configs import MODELS
from modules.formats.original.layout import Component
from modules.interfaces import Conditioning
from onetrainer.config.run.model import Base

END_TOKEN = 49407  # of CLIP's vocabulary; OpenAI's encoders are padded with it, OpenCLIP's with 0

Added = Callable[[Conditioning, Tensor], Mapping[str, Tensor]]
"""Computes the UNet's added conditioning, by diffusers' names, from conditioning and time ids."""


@dataclass(frozen=True)
class EncoderSpec:
    """How a family uses one of its text encoders.

    Attributes:
        name: Name in LoRA files.
        component: Folder in the diffusers layout.
        pad: Token that fills a chunk after its end.
        clip_skip: Layer to read, counted from the end of the trained encoder; 1 is the last.
        is_normed: Whether the final layer norm follows.
        missing_layers: How many of the trained encoder's last layers the published diffusers
            weights omit.
        has_projection: Whether it gives a pooled vector.
    """

    name: str
    component: Component
    pad: int
    clip_skip: int
    is_normed: bool
    missing_layers: int = 0
    has_projection: bool = False


@dataclass(frozen=True)
class FamilySpec:
    """One base: SD 1.x, SD 2.x or SDXL. Inpainting families share the spec of their base."""

    base: Base
    encoders: tuple[EncoderSpec, ...]
    added: Added

    @property
    def configs(self) -> Path:
        """Folder with the configs of this base's components."""
        return MODELS / self.base


def no_added_conditioning(_conditioning: Conditioning, _frames: Tensor) -> Mapping[str, Tensor]:
    """Return no added conditioning, for UNets conditioned on text alone."""
    return {}
