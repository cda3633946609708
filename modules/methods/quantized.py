"""Quantization of a model's frozen networks, before adapters are attached."""

import re
from collections.abc import Collection, Sequence
from functools import partial

import torch
from torch import nn

from modules.formats.lora.lora_names import LoraComponent
from modules.interfaces import Family
from modules.memory.quantize import Kind, quantize
from modules.methods.layers.layer_presets import networks_of
from modules.methods.layers.layer_rules import layer_name, matched_names
from onetrainer.checks.packages import missing_quantizer
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.components import trained_components
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.methods.method import Method
from onetrainer.errors import UserError


def quantize_family(
    family: Family,
    *,
    kind: Kind,
    patterns: Sequence[str],
    trains: Collection[str],
    device: torch.device,
) -> tuple[str, ...]:
    """Quantize the linear layers of a family's UNet and text encoders; return notes for people.

    Call it after loading and before the method is attached: adapters then take their initial values
    (DoRA's norms) from the quantized weights, and keep the layers they are attached to.

    kind: Number format.
    patterns: Substrings of layer names, or regular expressions; all layers match if empty.
    trains: Components to leave as they are.
    device: Where to compute; components stay where they are.

    Raises:
        UserError: For a pattern that matches no layer, and if the package for the number format is
            missing.
    """
    problem = missing_quantizer(kind)
    if problem is not None:
        raise UserError(problem.what, problem.expected, problem.remedy)
    networks = networks_of(family)
    frozen = {
        component: module for component, module in networks.items() if component not in trains
    }
    names = [
        layer_name(component, path)
        for component, module in frozen.items()
        for path, layer in module.named_modules()
        if type(layer) is nn.Linear
    ]
    for place, pattern in enumerate(patterns):
        matched_names(
            f'hardware.quantized_layers.{place}.pattern: "{pattern}"',
            pattern,
            names,
            what="frozen linear layers",
            unmatched="layers of trained text encoders are not quantized",
        )
    count = sum(
        quantize(module, kind, partial(_is_chosen, patterns, component), device=device)
        for component, module in frozen.items()
    )
    return () if count else (f"no layer can be quantized to {kind}: all of them are trained",)


def unquantized_components(section: Method, base: str) -> frozenset[str]:
    """Return the components of a base that are not quantized: those trained, except adapted UNets.

    Text encoders with adapters are small, and read captions better in full precision.
    """
    match section:
        case Full():
            return frozenset(trained_components(section, base))
        case AdapterSection():
            return frozenset(trained_components(section, base)) - {"unet"}
        case EmbeddingOnly() | Vae():
            return frozenset()


def _is_chosen(patterns: Sequence[str], component: LoraComponent, path: str) -> bool:
    name = layer_name(component, path)
    return not patterns or any(re.search(pattern, name) for pattern in patterns)
