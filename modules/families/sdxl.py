"""Stable Diffusion XL: CLIP ViT-L/14 beside OpenCLIP ViT-bigG/14, and the picture's sizes.

Both encoders are read at the last layer but one, without the final norm; bigG's projection gives
the pooled vector. Source: Podell et al. 2023, arXiv:2307.01952, sections 2.1 and 2.2.
"""

from collections.abc import Mapping

from torch import Tensor

from modules.families.spec import END_TOKEN, EncoderSpec, FamilySpec
from modules.interfaces import Conditioning
from modules.memory.to_device import sent


def pooled_and_sizes(conditioning: Conditioning, frames: Tensor) -> Mapping[str, Tensor]:
    """The pooled text, and the sizes in float32: half precision would round a thousand pixels."""
    if conditioning.pooled is None:
        raise ValueError("SDXL needs the pooled text")
    return {
        "text_embeds": conditioning.pooled,
        "time_ids": sent(frames, conditioning.pooled.device).float(),
    }


SDXL = FamilySpec(
    base="sdxl",
    encoders=(
        EncoderSpec("te1", "text_encoder", pad=END_TOKEN, clip_skip=2, is_normed=False),
        EncoderSpec(
            "te2", "text_encoder_2", pad=0, clip_skip=2, is_normed=False, has_projection=True
        ),
    ),
    added=pooled_and_sizes,
)
