"""Layers of each base's published models, for files that come without a model."""

from functools import cache

from torch import Size

from modules.formats.files.component_configs import read_config
from modules.formats.lora.lora_names import Layer, LayerNames
from modules.formats.models.component_shapes import shapes_of
from onetrainer.families.registry import family_spec, folder_of, lora_components


def standard_shapes(base: str) -> dict[Layer, Size]:
    """Return the shape of each layer's weight in a full-size model."""
    spec, shapes = family_spec(base), {}
    for component in lora_components(base):
        network = spec.components[folder_of(component)]
        config = read_config(spec.configs / network.folder / "config.json")
        for name, shape in shapes_of(network, config).items():
            path, _, kind = name.rpartition(".")
            if kind == "weight":
                shapes[Layer(component, path)] = shape
    return shapes


@cache
def standard_names(base: str) -> LayerNames:
    """Return the names of every layer of a full-size model; takes up to a second, once."""
    spec, tensors = family_spec(base), {}
    for component in lora_components(base):
        network = spec.components[folder_of(component)]
        config = read_config(spec.configs / network.folder / "config.json")
        tensors[component] = list(shapes_of(network, config))
    return LayerNames.of(base, tensors)
