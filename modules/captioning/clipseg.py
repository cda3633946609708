"""CLIPSeg: masks of what a text names.

Source: Lüddecke and Ecker 2022, arXiv:2112.10003.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import CLIPSegForImageSegmentation

from modules.captioning.describer import Found
from modules.captioning.pretrained import load_pretrained
from modules.memory.to_device import to_device
from onetrainer.errors import UserError


class ClipSeg:
    """A network that finds what it is asked for; see `Describer`."""

    def __init__(self, folder: Path, device: torch.device, *, prompt: str) -> None:
        """Load it. prompt: What to find; of several things, separated by commas, each is white."""
        self.notes: Sequence[str] = ()
        self._device = device
        self._wanted = [part.strip() for part in prompt.split(",") if part.strip()]
        if not self._wanted:
            raise UserError(
                "CLIPSeg does not know yet what is to be white in the masks",
                'Expected a text such as "a face, hair"',
                "Add it: --prompt",
            )
        self._model, self._processor = load_pretrained(CLIPSegForImageSegmentation, folder, device)

    @torch.inference_mode()
    def describe(self, images: Sequence[Image.Image]) -> list[Found]:
        """Return the mask of each image."""
        shares = torch.stack([self._find(images, text) for text in self._wanted]).amax(dim=0)
        values = (shares.float().cpu() * 255).round().to(torch.uint8).numpy()
        return [Found(mask=Image.fromarray(np.ascontiguousarray(each))) for each in values]

    def _find(self, images: Sequence[Image.Image], text: str) -> Tensor:
        """Return how sure the network is that each pixel shows something, (B, H, W)."""
        inputs = self._processor(
            images=[*images], text=[text] * len(images), padding=True, return_tensors="pt"
        )
        pixels = to_device(inputs["pixel_values"].to(self._model.dtype), self._device)
        logits: Tensor = self._model(
            pixel_values=pixels,
            input_ids=to_device(inputs["input_ids"], self._device),
            attention_mask=to_device(inputs["attention_mask"], self._device),
        ).logits
        # Of a single image some versions leave the first dimension out.
        return logits.reshape(len(images), *logits.shape[-2:]).sigmoid()
