"""Which layers get an adapter, and with which settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from modules.formats.lora.lora_names import COMPONENTS, Layer, Part, canonical
from modules.interfaces import Family
from modules.methods.adapters.oft import outputs_of, size_of_blocks
from modules.methods.layers.layer_presets import is_chosen
from modules.methods.layers.layer_rules import layer_name, listed, require_all_used, rule_for
from onetrainer.config.base.components import (
    AdapterLayerRule,
    TextEncoder,
    TextEncoder2,
    TextEncoder2Adapter,
    TextEncoderAdapter,
    Unet,
    UnetAdapter,
)
from onetrainer.config.methods.adapters import Adapter, Oft
from onetrainer.errors import UserError

Network = Unet | TextEncoder | TextEncoder2


@dataclass(frozen=True)
class Plan:
    """An adapter to be.

    rank, alpha: None for kinds that have none. lr: None means the optimizer's.
    """

    layer: Layer
    module: nn.Module
    rank: int | None
    alpha: float | None
    lr: float | None


def network_of(section: Adapter, part: Part) -> Network:
    """The settings of the network that a part is."""
    match part:
        case "unet":
            return section.unet
        case "te" | "te1":
            return section.text_encoder
        case "te2":
            return section.text_encoder_2


def trained_parts(family: Family, section: Adapter) -> dict[Part, nn.Module]:
    """The networks of a family that get adapters."""
    parts: dict[Part, nn.Module] = {"unet": family.unet}
    parts |= {
        part: family.text_encoders[part] for part in COMPONENTS if part in family.text_encoders
    }
    return {part: model for part, model in parts.items() if network_of(section, part).train}


def plans(parts: Mapping[Part, nn.Module], section: Adapter) -> tuple[list[Plan], tuple[str, ...]]:
    """The adapters that a config wants, in the model's order, and notes for people.

    Raises UserError for a rule that no layer of these networks goes by, and where no layer at all
    gets an adapter.
    """
    layers = {
        Layer(part, canonical(part, path)): (path, module)
        for part, model in parts.items()
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }
    require_all_used(section.layers, [layer_name(part.part, part.path) for part in layers])
    chosen = [
        plan
        for layer, (path, module) in layers.items()
        if (plan := _plan(layer, path, module, section))
    ]
    found = [plan for plan in chosen if not _cannot_turn(plan, section)]
    if not found:
        raise UserError(
            "method.targets: no layer gets an adapter",
            "One layer at least was expected",
            "Choose other layers, or train another network",
        )
    return found, _left_out([plan for plan in chosen if _cannot_turn(plan, section)])


def _cannot_turn(plan: Plan, section: Adapter) -> bool:
    """Whether OFT can do nothing on a layer: its outputs divide into blocks of one alone."""
    if not isinstance(section, Oft):
        return False
    return size_of_blocks(outputs_of(plan.module), section.block_size) == 1


def _left_out(plans: Sequence[Plan]) -> tuple[str, ...]:
    if not plans:
        return ()
    names = [layer_name(plan.layer.part, plan.layer.path) for plan in plans]
    layers = f"{len(names)} layer{'s' if len(names) > 1 else ''}"
    return (
        f"OFT leaves {layers} out, whose outputs no block larger than 1 divides: {listed(names)}",
    )


def _plan(layer: Layer, path: str, module: nn.Module, section: Adapter) -> Plan | None:
    """None for a layer that gets no adapter; the rule for it counts more than the preset."""
    rule = rule_for(layer_name(layer.part, layer.path), section.layers)
    if not (rule.train if rule else is_chosen(layer.part, path, section.targets)):
        return None
    network = network_of(section, layer.part)
    rate = rule.lr if rule and rule.lr is not None else network.lr
    if isinstance(section, Oft):
        return Plan(layer, module, None, None, rate)
    rank, alpha = section.rank, section.alpha
    if isinstance(network, UnetAdapter | TextEncoderAdapter | TextEncoder2Adapter):
        rank, alpha = network.rank or rank, network.alpha or alpha
    if isinstance(rule, AdapterLayerRule):
        rank, alpha = rule.rank or rank, rule.alpha or alpha
    return Plan(layer, module, rank, alpha, rate)
