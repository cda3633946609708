"""Quantizing the frozen networks of a model, before adapters are put on them."""

import re
from collections.abc import Collection, Sequence
from functools import partial

import torch
from torch import nn

from modules.formats.lora.lora_names import DIFFUSERS_COMPONENTS, LORA_COMPONENTS, LoraComponent
from modules.interfaces import Family
from modules.memory.quantize import Kind, quantize
from modules.methods.adapters.layer_settings import component_settings
from modules.methods.full import trained_components
from modules.methods.layers.layer_rules import layer_name, similar_names
from onetrainer.checks.packages import missing_quantizer
from onetrainer.config.methods.adapters import Dora, LoHa, LoKr, Lora, Oft
from onetrainer.config.methods.full import Full
from onetrainer.config.methods.method import Method
from onetrainer.config.run.model import Base
from onetrainer.errors import UserError


def quantize_family(
    family: Family,
    *,
    kind: Kind,
    patterns: Sequence[str],
    trains: Collection[str],
    device: torch.device,
) -> tuple[str, ...]:
    """Quantizes the linear layers of a family's UNet and text encoders; gives notes for people.

    After loading, and before the method is attached: adapters then take what they begin with from
    the weights that are computed with (DoRA its lengths), and keep the layers that they lie on.
    patterns: parts of the names of layers, or regular expressions found in them; none means all.
    trains: the parts that are left as they are. device: where it is computed; parts stay where
    they are. Raises UserError for a pattern that no layer's name has, and where the package for
    the number format is missing.
    """
    problem = missing_quantizer(kind)
    if problem is not None:
        raise UserError(problem.what, problem.expected, problem.remedy)
    components: dict[LoraComponent, nn.Module] = {"unet": family.unet}
    components |= {
        component: family.text_encoders[component]
        for component in DIFFUSERS_COMPONENTS
        if component in family.text_encoders
    }
    frozen = {
        component: module for component, module in components.items() if component not in trains
    }
    names = [
        layer_name(component, path)
        for component, module in frozen.items()
        for path, layer in module.named_modules()
        if type(layer) is nn.Linear
    ]
    _require_all_used(patterns, names)
    count = sum(
        quantize(module, kind, partial(_is_chosen, patterns, component), device=device)
        for component, module in frozen.items()
    )
    return () if count else (f"no layer is left that could be kept as {kind}: all of them train",)


def unquantized_components(section: Method, base: Base) -> frozenset[str]:
    """The parts of a base that are not to be quantized: what trains, and is no UNet with adapters.

    Text encoders with adapters are small, and read captions better with all their digits.
    """
    match section:
        case Full():
            return frozenset(map(str, trained_components(section, base)))
        case Lora() | Dora() | LoHa() | LoKr() | Oft():
            encoders = [component for component in LORA_COMPONENTS[base] if component != "unet"]
            return frozenset(
                component for component in encoders if component_settings(section, component).train
            )
        case _:
            return frozenset()


def _is_chosen(patterns: Sequence[str], component: LoraComponent, path: str) -> bool:
    name = layer_name(component, path)
    return not patterns or any(re.search(pattern, name) for pattern in patterns)


def _require_all_used(patterns: Sequence[str], names: Sequence[str]) -> None:
    """Raises UserError for a pattern that is found in none of the names."""
    for place, pattern in enumerate(patterns):
        where = f'hardware.quantized_layers.{place}.pattern: "{pattern}"'
        try:
            is_used = any(re.search(pattern, name) for name in names)
        except re.error as error:
            raise UserError(
                f"{where} is no regular expression ({error})",
                "A part of the layers' names was expected",
                "Put a backslash before characters that mean something else: . * + ? ( ) [ ]",
            ) from error
        if not is_used:
            near = similar_names(pattern, names)
            raise UserError(
                f"{where} matches none of the {len(names)} linear layers that are frozen here",
                "Names are like " + ", ".join(near) if near else "",
                "Correct it, or remove it; layers of text encoders that train do not count",
            )
