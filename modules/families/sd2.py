"""Stable Diffusion 2.x: one OpenCLIP ViT-H/14 text encoder, read at its last layer but one.

OpenCLIP fills chunks with 0 after their end. The layer that is never read is left out of diffusers'
weights, so the layer read is the last one there.
"""

from modules.families.spec import EncoderSpec, FamilySpec, nothing

SD2 = FamilySpec(
    base="sd2",
    encoders=(
        EncoderSpec("te", "text_encoder", pad=0, clip_skip=2, is_normed=True, missing_layers=1),
    ),
    added=nothing,
)
