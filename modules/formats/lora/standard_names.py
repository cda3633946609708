"""Layers of each base's published models, for files that come without a model."""

from functools import cache

from modules.formats.files.component_configs import read_config
from modules.formats.lora.lora_names import LayerNames
from modules.formats.models.component_shapes import shapes_of
from onetrainer.families.registry import family_spec, folder_of, lora_components


@cache
def standard_names(base: str) -> LayerNames:
    """Return the names of every layer of a full-size model; takes up to a second, once."""
    spec, tensors = family_spec(base), {}
    for component in lora_components(base):
        network = spec.components[folder_of(component)]
        config = read_config(spec.configs / network.folder / "config.json")
        tensors[component] = list(shapes_of(network, config))
    return LayerNames.of(base, tensors)
