"""What tells one base of Stable Diffusion from another, as data."""

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
"""What the UNet is told besides text: from conditioning and frames, by diffusers' names."""


@dataclass(frozen=True)
class EncoderSpec:
    """How a family reads one of its text encoders.

    name: as in LoRA files. component: its folder in the diffusers layout. pad: the token that
    fills a chunk after its end. missing_layers: how many of the trained encoder's last layers
    the published weights of diffusers leave out. clip_skip: the layer read, counted from the end
    of the trained encoder; 1 is the last. is_normed: whether the final layer norm follows.
    has_projection: whether it gives a pooled vector.
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
        """Where the configs of this base's components are."""
        return MODELS / self.base


def nothing(_conditioning: Conditioning, _frames: Tensor) -> Mapping[str, Tensor]:
    """For UNets that are told of nothing but text."""
    return {}
