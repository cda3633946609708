"""The LAION aesthetic score: how much people like an image's look, from about 1 to 10.

CLIP ViT-L/14 and a small head on its unit vector: a linear one or a chain of linear layers.
Source: LAION-AI/aesthetic-predictor and christophschuhmann/improved-aesthetic-predictor, 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from modules.rewards.networks.clip import Clip
from modules.rewards.networks.heads import Head
from onetrainer.errors import UserError


@dataclass(frozen=True)
class Aesthetic:
    """LAION's aesthetic score. Raises UserError if the head was trained for another CLIP."""

    clip: Clip
    head: Head

    def __post_init__(self) -> None:
        if self.head.width != self.clip.width:
            raise UserError(
                f"the head reads {self.head.width} numbers, this CLIP returns {self.clip.width}",
                "The published heads were trained on CLIP ViT-L/14, which returns 768",
                "Choose that CLIP as the network, or a head for this one",
            )

    has_gradient: ClassVar[bool] = True

    def extra_modules(self) -> nn.Module:
        return nn.ModuleList([self.clip.modules(), self.head]).eval()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        scores: Tensor = self.head(self.clip.embed_images(images))
        return scores[:, 0]
