"""CLIP: how near a picture is to a text, and the networks that were made of it.

Scores: "clip", 100 times the cosine of both; "pickscore", the cosine times the network's own scale;
"hpsv2", the cosine itself; as their authors' programs give them.
Sources: Radford et al. 2021, arXiv:2103.00020; Kirstain et al. 2023, arXiv:2305.01569 (PickScore);
Wu et al. 2023, arXiv:2306.09341 (HPSv2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    CLIPVisionModelWithProjection,
)

from modules.memory.to_device import sent
from modules.rewards.networks.clip_pixels import Fit, clip_pixels

PERCENT = 100.0


@dataclass(frozen=True)
class Clip:
    """A frozen CLIP in evaluation mode.

    text, tokenizer: None where only pictures are looked at. scale: by which the network itself
    multiplies cosines; 1 where its file does not say.
    """

    vision: CLIPVisionModelWithProjection
    text: CLIPTextModelWithProjection | None
    tokenizer: CLIPTokenizer | None
    scale: float = 1.0

    @property
    def width(self) -> int:
        """How many numbers a picture or a text becomes."""
        return int(self.vision.config.projection_dim)

    def modules(self) -> nn.ModuleList:
        """Its networks."""
        towers = [self.vision] if self.text is None else [self.vision, self.text]
        return nn.ModuleList(towers).eval()

    def of_images(self, images: Tensor, *, fit: Fit = "cut") -> Tensor:
        """Unit vectors, (B, width), float32, with a gradient.

        pictures: (B, 3, H, W), float32 in [0, 1]; cast to the network's dtype once they are scaled.
        """
        size = self.vision.config.image_size
        assert isinstance(size, int)
        pixels = clip_pixels(images, size, fit=fit)
        features = self.vision(pixel_values=pixels.to(self.vision.dtype)).image_embeds
        return _unit(features)

    def of_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors, (B, width), float32, without a gradient; what is too long is cut off."""
        assert self.text is not None
        assert self.tokenizer is not None
        different = list(dict.fromkeys(texts))
        # Whatever stands behind a text's end is not looked at, so all are as long as they can be.
        ids = self.tokenizer(
            different,
            padding="max_length",
            truncation=True,
            max_length=self.text.config.max_position_embeddings,
            return_tensors="pt",
        )["input_ids"]
        with torch.no_grad():
            features = self.text(input_ids=sent(ids, self.text.device)).text_embeds
        rows = torch.tensor([different.index(text) for text in texts])
        units = _unit(features)
        return units[sent(rows, units.device)]


@dataclass(frozen=True)
class TextScore:
    """How near pictures are to their prompts, or to a text.

    scale: multiplies cosines. text: stands in for all prompts; "" for none. unlike: a text whose
    score is taken off; "" for none. fit: how pictures become squares.
    """

    clip: Clip
    scale: float
    text: str = ""
    unlike: str = ""
    fit: Fit = "cut"

    @property
    def has_gradient(self) -> bool:
        return True

    def own_modules(self) -> nn.Module:
        return self.clip.modules()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        wanted = self.clip.of_texts([self.text or prompt for prompt in prompts])
        if self.unlike:
            wanted = wanted - self.clip.of_texts([self.unlike])
        return self.scale * (self.clip.of_images(images, fit=self.fit) * wanted).sum(dim=-1)


def _unit(features: Tensor) -> Tensor:
    """Unit vectors, in float32 at least."""
    precise = torch.promote_types(features.dtype, torch.float32)
    return functional.normalize(features.to(precise), dim=-1)
