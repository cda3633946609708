"""CLIP similarity of images and texts, also of networks fine-tuned from CLIP.

Scores, as their authors' programs scale them: "clip", 100 times the cosine; "pickscore", the cosine
times the network's own scale; "hpsv2", the cosine itself.
Sources: Radford et al. 2021, arXiv:2103.00020; Kirstain et al. 2023, arXiv:2305.01569 (PickScore);
Wu et al. 2023, arXiv:2306.09341 (HPSv2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    CLIPVisionModelWithProjection,
)

from modules.memory.to_device import to_device
from modules.rewards.networks.clip_pixels import Fit, clip_pixels

PERCENT = 100.0


@dataclass(frozen=True)
class Clip:
    """A frozen CLIP in evaluation mode.

    text, tokenizer: None if only images are scored. scale: the network's own factor of cosines; 1
    if its file has none.
    """

    vision: CLIPVisionModelWithProjection
    text: CLIPTextModelWithProjection | None
    tokenizer: CLIPTokenizer | None
    scale: float = 1.0

    @property
    def width(self) -> int:
        """The length of image and text embeddings."""
        return int(self.vision.config.projection_dim)

    def modules(self) -> nn.ModuleList:
        """Return its networks."""
        towers = [self.vision] if self.text is None else [self.vision, self.text]
        return nn.ModuleList(towers).eval()

    def embed_images(self, images: Tensor, *, fit: Fit = "crop") -> Tensor:
        """Compute unit vectors, (B, width), float32, with a gradient.

        Args:
            images: (B, 3, H, W), float32 in [0, 1]; cast to the network's dtype after resizing.
            fit: How images become squares.
        """
        size = self.vision.config.image_size
        assert isinstance(size, int)
        pixels = clip_pixels(images, size, fit=fit)
        features = self.vision(pixel_values=pixels.to(self.vision.dtype)).image_embeds
        return _unit(features)

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Compute unit vectors, (B, width), float32, without a gradient; long texts are cut off."""
        assert self.text is not None
        assert self.tokenizer is not None
        different = list(dict.fromkeys(texts))
        # What follows a text's end is masked, so all are padded to the maximum length.
        ids = self.tokenizer(
            different,
            padding="max_length",
            truncation=True,
            max_length=self.text.config.max_position_embeddings,
            return_tensors="pt",
        )["input_ids"]
        with torch.no_grad():
            features = self.text(input_ids=to_device(ids, self.text.device)).text_embeds
        rows = torch.tensor([different.index(text) for text in texts])
        units = _unit(features)
        return units[to_device(rows, units.device)]


@dataclass(frozen=True)
class TextScore:
    """The similarity of images to their prompts, or to a text.

    scale: multiplies cosines. text: replaces all prompts; "" for none. unlike: a text whose score
    is subtracted; "" for none. fit: how images become squares.
    """

    clip: Clip
    scale: float
    text: str = ""
    unlike: str = ""
    fit: Fit = "crop"

    has_gradient: ClassVar[bool] = True

    def extra_modules(self) -> nn.Module:
        return self.clip.modules()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        target = self.clip.embed_texts([self.text or prompt for prompt in prompts])
        if self.unlike:
            target = target - self.clip.embed_texts([self.unlike])
        return self.scale * (self.clip.embed_images(images, fit=self.fit) * target).sum(dim=-1)


def _unit(features: Tensor) -> Tensor:
    """Normalize vectors to unit length, in float32 at least."""
    precise = torch.promote_types(features.dtype, torch.float32)
    return functional.normalize(features.to(precise), dim=-1)
