"""Names of a model's layers, and the presets that choose among them."""

from collections.abc import Iterator

from torch import nn

from modules.formats.lora.lora_names import (
    Layer,
    LayerNames,
    LoraComponent,
    canonical_path,
    kohya_path,
)
from modules.interfaces import Family
from onetrainer.config.methods.adapter_section import AdapterTargets
from onetrainer.families.registry import base_of

ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
TEXT_ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")
TEXT_MLP = ("fc1", "fc2")


def networks_of(family: Family) -> dict[LoraComponent, nn.Module]:
    """Return a family's UNet and text encoders."""
    return {"unet": family.unet, **family.text_encoders}


def layer_names(family: Family) -> LayerNames:
    """Return the names of a family's layers in LoRA files."""
    tensors = {name: list(module.state_dict()) for name, module in networks_of(family).items()}
    return LayerNames.of(base_of(family.name), tensors)


def named_layers(family: Family) -> Iterator[tuple[Layer, nn.Module]]:
    """Yield every module of a family's UNet and text encoders with its layer."""
    for component, module in networks_of(family).items():
        yield from (
            (Layer(component, canonical_path(component, path)), submodule)
            for path, submodule in module.named_modules()
        )


def unread_layers(family: Family) -> frozenset[Layer]:
    """Return the layers of a family's networks that nothing reads."""
    unread = family.unread_modules()
    return frozenset(layer for layer, module in named_layers(family) if module in unread)


def is_chosen(component: LoraComponent, path: str, targets: AdapterTargets) -> bool:
    """Return whether a preset includes a linear or convolution layer; path: the module's."""
    if component == "unet":
        return _is_chosen_in_unet(path, targets)
    return _is_chosen_in_text(path, targets)


def adapter_name(layer: Layer) -> str:
    """Return an adapter's name in checkpoints: kohya's with diffusers' paths, for every base."""
    return f"lora_{layer.component}_{kohya_path(layer.path)}"


def _is_chosen_in_unet(path: str, targets: AdapterTargets) -> bool:
    """Return whether a preset includes a linear or convolution layer of the UNet.

    "attn": the projections of self- and cross-attention. "attn-mlp": every layer of the transformer
    blocks and the projections into and out of them, as kohya's and most other LoRAs. "full": every
    linear and convolution layer.
    """
    match targets:
        case "attn":
            return ".attentions." in f".{path}" and path.endswith(ATTENTION)
        case "attn-mlp":
            return ".attentions." in f".{path}"
        case "full":
            return True
        case "named":
            return False


def _is_chosen_in_text(path: str, targets: AdapterTargets) -> bool:
    """Return whether a preset includes a text encoder's layer: attention, or attention and MLP."""
    match targets:
        case "attn":
            return path.endswith(TEXT_ATTENTION)
        case "attn-mlp" | "full":
            return path.endswith(TEXT_ATTENTION + TEXT_MLP)
        case "named":
            return False
