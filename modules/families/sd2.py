"""Stable Diffusion 2.x: one OpenCLIP ViT-H/14 text encoder, read at its penultimate layer.

OpenCLIP pads chunks with 0. The diffusers weights omit the layer that is never read, so the layer
read is their last one.
"""

from modules.families.spec import EncoderSpec, FamilySpec, no_added_conditioning

SD2 = FamilySpec(
    base="sd2",
    encoders=(
        EncoderSpec("te", "text_encoder", pad=0, clip_skip=2, is_normed=True, missing_layers=1),
    ),
    added=no_added_conditioning,
)
