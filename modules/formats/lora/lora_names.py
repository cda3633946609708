"""Names of a model's layers in LoRA files, in every naming.

Three namings are written: kohya's (sd-scripts; all programs read it), diffusers' (peft's module
paths) and ComfyUI's (the original layout's paths). Source: kohya-ss/sd-scripts, networks/lora.py;
comfyanonymous/ComfyUI, comfy/lora.py; diffusers, loaders/lora_pipeline.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from onetrainer.config.run.output import LoraNaming
from onetrainer.families.registry import component_of, family_spec
from onetrainer.model_files.adapter_keys import WRAPPED
from onetrainer.model_files.original.layout import recipes

LoraComponent = str
""""unet", or the name of a text encoder."""
Naming = LoraNaming
NAMINGS: tuple[Naming, ...] = ("kohya", "diffusers", "comfyui")

TEXT_LEVEL = "text_model."  # transformers since 5.6 omits it from some modules' paths
PROJECTION = "text_projection"  # the only layer of a text encoder outside of that level
LYCORIS = "lycoris_"  # prefix of LyCORIS for the layers of a bare UNet


@dataclass(frozen=True, order=True)
class Layer:
    """One layer of a model: its component, and its path in diffusers and transformers.

    Paths of text encoders always have the `text_model.` level.
    """

    component: LoraComponent
    path: str


@dataclass(frozen=True)
class LayerNames:
    """Every layer of a model with its names.

    Attributes:
        names: Names to write.
        spellings: All names that are read.
    """

    base: str
    names: Mapping[Naming, Mapping[Layer, str]]
    spellings: Mapping[str, Layer]

    @staticmethod
    def of(base: str, tensors: Mapping[LoraComponent, Iterable[str]]) -> "LayerNames":
        """Return the names of a model's layers.

        tensors: By component, the names of its tensors as in `state_dict`, with or without the
        `text_model.` level.
        """
        names: dict[Naming, dict[Layer, str]] = {naming: {} for naming in NAMINGS}
        spellings: dict[str, Layer] = {}
        for component, tensor_names in tensors.items():
            rows = (
                _unet_rows(base, tensor_names)
                if component == "unet"
                else _text_rows(base, component, tensor_names)
            )
            for layer, written, others in rows:
                for naming in NAMINGS:
                    names[naming][layer] = written[naming]
                for spelling in (*written.values(), *others):
                    if spellings.setdefault(spelling, layer) != layer:
                        raise ValueError(f"{spelling} means {layer} and {spellings[spelling]}")
        return LayerNames(base, names, spellings)

    @property
    def layers(self) -> list[Layer]:
        """All layers in the model's order."""
        return list(self.names["kohya"])

    def find(self, name: str) -> Layer | None:
        """Return the layer of this name in any naming; None if the model has no such layer."""
        return self.spellings.get(name.removeprefix(WRAPPED))

    def name(self, layer: Layer, naming: Naming) -> str:
        """Return the layer's name in a naming; KeyError if the model lacks the layer."""
        return self.names[naming][layer]


Row = tuple[Layer, Mapping[Naming, str], tuple[str, ...]]
"""A layer, its names to write, and further names to read."""


def canonical_path(component: LoraComponent, path: str) -> str:
    """Return a layer's path with the `text_model.` level where it belongs."""
    if not component_of(component).has_text_level or path.partition(".")[0] == PROJECTION:
        return path
    return TEXT_LEVEL + path.removeprefix(TEXT_LEVEL)


def kohya_path(path: str) -> str:
    """Return a path as in kohya's names."""
    return path.replace(".", "_")


def _unet_rows(base: str, tensors: Iterable[str]) -> Iterator[Row]:
    spec, tensors = family_spec(base), list(tensors)
    level = spec.unet.prefix
    originals = {
        _layer_path(recipe.ours[0]): _layer_path(recipe.original.removeprefix(level))
        for recipe in recipes(spec.unet, tensors)
    }
    for path in dict.fromkeys(_layer_path(name) for name in tensors):
        original = originals[path]
        kohya, other = (original, path) if spec.has_original_layer_names else (path, original)
        written: dict[Naming, str] = {
            "kohya": f"lora_unet_{kohya_path(kohya)}",
            "diffusers": f"unet.{path}",
            "comfyui": f"diffusion_model.{original}",
        }
        others = (
            f"lora_unet_{kohya_path(other)}",
            f"oft_unet_{kohya_path(kohya)}",
            f"{LYCORIS}{kohya_path(path)}",
            f"{LYCORIS}unet_{kohya_path(path)}",
            f"{level}{original}",
            path,
            original,
        )
        yield Layer("unet", path), written, others


def _text_rows(base: str, component: LoraComponent, tensors: Iterable[str]) -> Iterator[Row]:
    encoders = family_spec(base).encoders
    encoder = next(each for each in encoders if each.name == component)
    folder = encoder.component.folder
    for path in dict.fromkeys(canonical_path(component, _layer_path(name)) for name in tensors):
        written: dict[Naming, str] = {
            "kohya": f"lora_{component}_{kohya_path(path)}",
            "diffusers": f"{folder}.{path}",
            "comfyui": f"text_encoders.{encoder.comfy_names[0]}.transformer.{path}",
        }
        others = [
            spelling
            for each in (path, path.removeprefix(TEXT_LEVEL))
            for spelling in (
                *(f"lora_{name}_{kohya_path(each)}" for name in encoder.lora_names),
                *(f"{LYCORIS}{name}_{kohya_path(each)}" for name in encoder.lora_names),
                *(f"text_encoders.{name}.transformer.{each}" for name in encoder.comfy_names),
                f"{folder}.{each}",
            )
        ]
        yield Layer(component, path), written, tuple(others)


def _layer_path(tensor: str) -> str:
    """Return a tensor's name without "weight" or "bias"."""
    return tensor.rpartition(".")[0]
