"""The settings of a model's text encoders, in the order of its family's."""

from onetrainer.config.base.components import TextEncoder, TextEncoder2
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.full import Full
from onetrainer.families.registry import encoder_index, family_spec

ENCODER_SECTIONS = ("text_encoder", "text_encoder_2")
"""Names of the sections, also of a family that has one encoder."""


def section_name(component: str) -> str:
    """Return the name of the section of a component: "unet", "vae", or that of an encoder."""
    index = encoder_index(component)
    return component if index < 0 else ENCODER_SECTIONS[index]


def encoder_settings(method: Adapter | Full, family: str) -> dict[str, TextEncoder | TextEncoder2]:
    """Return the settings of each of a family's text encoders by the name of their section."""
    sections = (method.text_encoder, method.text_encoder_2)
    return dict(zip(ENCODER_SECTIONS[: len(family_spec(family).encoders)], sections, strict=False))
