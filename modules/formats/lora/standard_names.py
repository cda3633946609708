"""Layers of each base's published models, for files that come without a model."""

from functools import cache

from modules.formats.files.component_configs import MODELS, read_config
from modules.formats.lora.lora_names import DIFFUSERS_COMPONENTS, LORA_COMPONENTS, LayerNames
from modules.formats.models.component_shapes import shapes_of
from onetrainer.config.run.model import Base


@cache
def standard_names(base: Base) -> LayerNames:
    """Return the names of every layer of a full-size model; takes a second for SDXL, once."""
    tensors = {}
    for component in LORA_COMPONENTS[base]:
        diffusers_name = DIFFUSERS_COMPONENTS[component]
        config = read_config(MODELS / base / diffusers_name / "config.json")
        tensors[component] = list(shapes_of(diffusers_name, config))
    return LayerNames.of(base, tensors)
