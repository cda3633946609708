"""Stable Diffusion 1.x: one CLIP ViT-L/14 text encoder, read at its last layer."""

from modules.families.spec import END_TOKEN, EncoderSpec, FamilySpec, no_added_conditioning

SD15 = FamilySpec(
    base="sd15",
    encoders=(EncoderSpec("te", "text_encoder", pad=END_TOKEN, clip_skip=1, is_normed=True),),
    added=no_added_conditioning,
)
