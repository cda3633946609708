"""Stable Diffusion XL: CLIP ViT-L/14 and OpenCLIP ViT-bigG/14, with size conditioning.

Both encoders are read at the penultimate layer, without the final norm; bigG's projection gives the
pooled vector. Source: Podell et al. 2023, arXiv:2307.01952, sections 2.1 and 2.2.
"""

from collections.abc import Mapping

from torch import Tensor

from modules.families.spec import END_TOKEN, EncoderSpec, FamilySpec
from modules.interfaces import Conditioning
from modules.memory.to_device import to_device


def sdxl_added_conditioning(conditioning: Conditioning, time_ids: Tensor) -> Mapping[str, Tensor]:
    """Return the pooled text, and the time ids in float32: half precision would round sizes."""
    if conditioning.pooled is None:
        raise ValueError("SDXL needs pooled text embeddings")
    return {
        "text_embeds": conditioning.pooled,
        "time_ids": to_device(time_ids, conditioning.pooled.device).float(),
    }


SDXL = FamilySpec(
    base="sdxl",
    encoders=(
        EncoderSpec("te1", "text_encoder", pad=END_TOKEN, clip_skip=2, is_normed=False),
        EncoderSpec(
            "te2", "text_encoder_2", pad=0, clip_skip=2, is_normed=False, has_projection=True
        ),
    ),
    added=sdxl_added_conditioning,
)
