"""Full fine-tuning: trains a model's own weights, all of them or those of chosen layers."""

from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from modules.formats.lora.lora_names import LoraComponent
from modules.formats.models.component_shapes import canonical_name
from modules.interfaces import ExportOptions, Family, Method, ParameterGroup, named_parameters
from modules.memory.eval_mode import inference_mode
from modules.methods.layers.layer_presets import networks_of, unread_layers
from modules.methods.layers.layer_rules import layer_name, require_all_used, rule_for
from modules.methods.model_source import ModelSource, Trained
from modules.methods.original_weights import OriginalWeights
from onetrainer.config.base.amount import known
from onetrainer.config.methods.components import component_settings, trained_components
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.full import WeightPrecision
from onetrainer.errors import UserError
from onetrainer.families.registry import component_of, folder_of

WEIGHT_DTYPES: Mapping[WeightPrecision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
}
# Weight decay would change the rows of the tens of thousands of tokens that no caption has.
TABLES = ("token_embedding", "position_embedding")
# Substrings of the names of a preset's layers, in the UNet and in text encoders.
ATTENTION = (".attn1.", ".attn2.", ".self_attn.")
BLOCKS = (".attentions.", ".encoder.layers.")


@dataclass(frozen=True)
class OwnWeights(Method):
    """A family some of whose own weights are trained; all but attachment and files of a Method.

    Attributes:
        weights: Trained parameters by component, then by name there, text encoders' with
            `text_model.`.
        groups: The same by learning rate.
        trained: The networks that have any of them.
        original: Their values before training; None if not kept.
    """

    family: Family
    source: ModelSource
    weights: Mapping[str, Mapping[str, nn.Parameter]]
    groups: tuple[ParameterGroup, ...]
    trained: tuple[nn.Module, ...]
    original: OriginalWeights | None

    def parameter_groups(self) -> list[ParameterGroup]:
        return list(self.groups)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        # Earlier versions also trained layers that nothing reads.
        unread = tuple(
            f"{folder_of(layer.component)}.{layer.path}." for layer in unread_layers(self.family)
        )
        super().load_state_dict(
            {name: value for name, value in state.items() if not name.startswith(unread)}
        )

    def extra_modules(self) -> nn.Module:
        return nn.Module()  # everything that trains is the model's own

    def train(self, mode: bool) -> None:
        for module in self.trained:
            module.train(mode)

    def base_model(self) -> AbstractContextManager[None]:
        """Raise ValueError if the original weights were not kept."""
        if self.original is None:
            raise ValueError("the original weights were not kept")
        return self.original.restored()

    def merged(self) -> AbstractContextManager[None]:
        return inference_mode(self.trained)


class Full(OwnWeights):
    """A family whose own weights are trained."""

    @staticmethod
    def attach(
        family: Family,
        section: FullSection,
        *,
        source: ModelSource,
        keep_original: torch.device | None = None,
    ) -> "Full":
        """Make the chosen weights of a family trainable; load it with `component_dtypes`.

        Args:
            family: Loaded with `component_dtypes`.
            section: The method's settings.
            source: Files the family was loaded from.
            keep_original: Device for a copy of the weights for `base_model`; None for no copy.

        Raises:
            UserError: For a pattern that matches no layer, and if no layer is chosen.
        """
        networks = networks_of(family)
        components = {name: networks[name] for name in trained_components(section, family.name)}
        layers = [
            layer_name(component, path)
            for component, module in components.items()
            for path in dict.fromkeys(
                name.rpartition(".")[0] for name, _ in module.named_parameters()
            )
        ]
        require_all_used(section.layers, layers)
        weights: dict[str, dict[str, nn.Parameter]] = {}
        groups: list[ParameterGroup] = []
        for component, module in components.items():
            chosen = _chosen(component, module, section, family.unread_modules())
            groups += _groups(component, chosen, section)
            diffusers_name = folder_of(component)
            weights[diffusers_name] = {
                name.removeprefix(f"{diffusers_name}."): parameter
                for name, (parameter, _) in chosen.items()
            }
        if components and not groups:
            raise UserError(
                "method: no layer is chosen for training",
                "Expected a component with trainable layers",
                "Train the UNet or a text encoder, or choose other layers (method.targets,"
                " method.layers)",
            )
        named = named_parameters(groups)
        dtype = WEIGHT_DTYPES[section.weights]
        for name, weight in named.items():
            if weight.dtype != dtype:  # casting it now would round it twice
                raise ValueError(f"{name} was loaded as {weight.dtype}, not as {dtype}")
            weight.requires_grad_(True)
        original = OriginalWeights.of(named, keep_original) if keep_original else None
        return Full(family, source, weights, tuple(groups), tuple(components.values()), original)

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write the whole model; untrained weights are read from its files."""
        return self.source.write(path, self.family, self.trained_weights(), options)

    def trained_weights(self) -> Trained:
        """Return what is trained, by component and by name there."""
        return {
            diffusers_name: {name: weight.detach() for name, weight in parameters.items()}
            for diffusers_name, parameters in self.weights.items()
        }


def component_dtypes(section: FullSection, base: str) -> dict[str, torch.dtype]:
    """Return the dtype to load each trained network of a base in."""
    return dict.fromkeys(trained_components(section, base), WEIGHT_DTYPES[section.weights])


def _chosen(
    component: LoraComponent,
    module: nn.Module,
    section: FullSection,
    unread: Set[nn.Module],
) -> dict[str, tuple[nn.Parameter, float | None]]:
    """Return every parameter to train, with its learning rate, by its name in checkpoints."""
    diffusers_name, chosen = folder_of(component), {}
    own_rate = component_settings(section, component).lr
    for path, parameter in module.named_parameters():
        place = path.rpartition(".")[0]
        if module.get_submodule(place) in unread:
            continue
        layer = layer_name(component, place)
        rule = rule_for(layer, section.layers)
        if rule.train if rule else _is_target(layer, section):
            lr = rule.lr if rule and rule.lr is not None else own_rate
            chosen[f"{diffusers_name}.{canonical_name(component_of(component), path)}"] = (
                parameter,
                lr,
            )
    return chosen


def _is_target(layer: str, section: FullSection) -> bool:
    """Return whether a layer that no rule matches is trained.

    "attn": the projections of self- and cross-attention. "attn-mlp": the transformer blocks with
    their norms, and the UNet's projections into and out of them.
    """
    inside = f"{layer}."
    match section.targets:
        case "attn":
            return any(component in inside for component in ATTENTION)
        case "attn-mlp":
            return any(component in inside for component in BLOCKS)
        case "full":
            return not layer.endswith(TABLES)
        case "named":
            return False


def _groups(
    component: LoraComponent,
    chosen: Mapping[str, tuple[nn.Parameter, float | None]],
    section: FullSection,
) -> list[ParameterGroup]:
    """Return one group for each learning rate, in the network's order."""
    rates = dict.fromkeys(lr for _, lr in chosen.values())
    stop = known(component_settings(section, component).stop_after)
    return [
        ParameterGroup(
            component,
            {name: weight for name, (weight, rate) in chosen.items() if rate == lr},
            lr,
            stop_after=stop,
        )
        for lr in rates
    ]
