"""Choice of the layers that get an adapter, and their settings."""

from collections.abc import Mapping, Set
from types import MappingProxyType

from torch import nn

from modules.formats.lora.lora_names import (
    Layer,
    LoraComponent,
    canonical_path,
)
from modules.methods.adapters.kind import AdapterKind, AdapterPlan
from modules.methods.adapters.registry import kind_of
from modules.methods.layers.layer_rules import format_names, layer_name, require_all_used, rule_for
from onetrainer.config.base.components import AdapterLayerRule, TextEncoderAdapter, UnetAdapter
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.components import component_settings
from onetrainer.config.methods.low_rank import LowRank
from onetrainer.errors import UserError


def plan_adapters(
    components: Mapping[LoraComponent, nn.Module],
    section: Adapter,
    *,
    unread: Set[nn.Module] = frozenset(),
    ranks: Mapping[Layer, int] = MappingProxyType({}),
) -> tuple[list[AdapterPlan], tuple[str, ...]]:
    """Return the adapters that a config wants, in the model's order, and notes for people.

    unread: Modules without effect, which get none.
    ranks: Of layers whose rank no setting of a component or a rule chooses.

    Raises:
        UserError: For a rule that applies to no layer, and if no layer gets an adapter.
    """
    layers = {
        Layer(component, canonical_path(component, path)): (path, module)
        for component, model in components.items()
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }
    require_all_used(
        section.layers, [layer_name(component.component, component.path) for component in layers]
    )
    kind = kind_of(section)
    chosen = [
        plan
        for layer, (path, module) in layers.items()
        if module not in unread and (plan := _plan(layer, path, module, kind, ranks.get(layer)))
    ]
    usable = [plan for plan in chosen if kind.has_effect(plan)]
    if not usable:
        raise UserError(
            "method.targets: no layer gets an adapter",
            "Expected at least one layer",
            "Choose other layers, or train another network",
        )
    skipped = [plan.layer for plan in chosen if not kind.has_effect(plan)]
    if not skipped:
        return usable, ()
    names = [layer_name(layer.component, layer.path) for layer in skipped]
    count = f"{len(names)} layer{'s' if len(names) > 1 else ''}"
    return usable, (f"{section.title} skips {count} {kind.skip_reason}: {format_names(names)}",)


def _plan(
    layer: Layer, path: str, module: nn.Module, kind: AdapterKind, own_rank: int | None
) -> AdapterPlan | None:
    """Return None for a layer without adapter; a matching rule overrides the preset."""
    section = kind.section
    rule = rule_for(layer_name(layer.component, layer.path), section.layers)
    if not (rule.train if rule else kind.chooses(layer, path)):
        return None
    network = component_settings(section, layer.component)
    rate = rule.lr if rule and rule.lr is not None else network.lr
    if not isinstance(section, LowRank):
        return AdapterPlan(layer, module, None, None, rate)
    rank, alpha = own_rank or section.rank, section.alpha
    if isinstance(network, UnetAdapter | TextEncoderAdapter):
        rank, alpha = network.rank or rank, network.alpha or alpha
    if isinstance(rule, AdapterLayerRule):
        rank, alpha = rule.rank or rank, rule.alpha or alpha
    return AdapterPlan(layer, module, rank, alpha, rate)
