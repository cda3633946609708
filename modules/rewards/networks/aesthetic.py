"""How much people like to look at a picture, whatever it shows, from about 1 to 10.

CLIP ViT-L/14 and a small head on its unit vector: a linear one or a chain of linear layers.
Source: LAION-AI/aesthetic-predictor and christophschuhmann/improved-aesthetic-predictor, 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from modules.rewards.networks.clip import Clip
from modules.rewards.networks.heads import Head
from onetrainer.errors import UserError


@dataclass(frozen=True)
class Aesthetic:
    """LAION's aesthetic score. Raises UserError where the head was made for another CLIP."""

    clip: Clip
    head: Head

    def __post_init__(self) -> None:
        if self.head.width != self.clip.width:
            raise UserError(
                f"this head reads {self.head.width} numbers, and this CLIP gives {self.clip.width}",
                "The published heads were made for CLIP ViT-L/14, which gives 768",
                "Choose that CLIP as the network, or the head that belongs to this one",
            )

    @property
    def has_gradient(self) -> bool:
        return True

    def own_modules(self) -> nn.Module:
        return nn.ModuleList([self.clip.modules(), self.head]).eval()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        scores: Tensor = self.head(self.clip.of_images(images))
        return scores[:, 0]
