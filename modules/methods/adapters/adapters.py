"""Adapters: small trained matrices beside the frozen weights, of every kind.

Which layers get one is said by `adapter_plan`; what one computes by the file of its kind.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from modules.formats.embeddings.embedding_file import bundled_tensors
from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.formats.lora.lora_keys import Kinds
from modules.formats.lora.lora_names import Layer, LayerNames, LoraComponent
from modules.interfaces import ExportOptions, Family, ParameterGroup
from modules.methods.adapters.export import adapter_metadata, with_alpha_folded
from modules.methods.adapters.layer_settings import (
    AdapterPlan,
    component_settings,
    plan_adapters,
    trained_components,
)
from modules.methods.adapters.lokr import LokrAdapter
from modules.methods.adapters.merged import merged
from modules.methods.adapters.start_file import load_start_file
from modules.methods.adapters.variants import AdapterModule, make_adapter
from modules.methods.layers.layer_presets import adapter_name, layer_names
from onetrainer.config.methods.adapters import Adapter, Dora, LoKr, Lora
from onetrainer.config.run.model import Prediction
from onetrainer.model_files.adapter_keys import UP


@dataclass(frozen=True)
class Adapters:
    """Adapters attached to a family; `modules.interfaces.Method` tells what each method gives.

    adapters: by part ("unet", "te" …), then by `adapter_name`; float32. plans: what each of them
    lies on, by its name. notes: what a person should know of them, and of the file that they go
    on from.
    """

    adapters: Mapping[LoraComponent, nn.ModuleDict]
    plans: Mapping[str, AdapterPlan]
    components: Mapping[LoraComponent, nn.Module]
    names: LayerNames
    prediction: Prediction
    section: Adapter
    notes: tuple[str, ...] = ()

    @staticmethod
    def attach(family: Family, section: Adapter, *, seed: int) -> "Adapters":
        """Puts adapters on the family's chosen layers.

        They change nothing yet, or what the file to go on from says. Initial values depend on the
        seed and on each layer's name, on nothing else.
        Raises UserError for patterns that no layer matches and for a file that does not fit.
        """
        names, components = layer_names(family), trained_components(family, section)
        adapters: dict[LoraComponent, nn.ModuleDict] = {
            component: nn.ModuleDict() for component in components
        }
        found: dict[str, AdapterPlan] = {}
        wanted, notes = plan_adapters(components, section)
        for plan in wanted:
            name = adapter_name(plan.layer)
            found[name] = plan
            adapters[plan.layer.component][name] = make_adapter(name, plan, section, seed=seed)
        own = {component: held for component, held in adapters.items() if held}
        notes += _notes(section, _each(own))
        if section.start_from:
            path = Path(section.start_from)
            by_layer = {found[name].layer: adapter for name, adapter in _each(own).items()}
            notes += load_start_file(path, read_lora(path, names), by_layer, section)
        for adapter in _each(own).values():
            adapter.apply_to()
        return Adapters(own, found, components, names, family.prediction, section, notes)

    def parameter_groups(self) -> list[ParameterGroup]:
        """One for each network, learning rate, and ratio of LoRA+."""
        groups: dict[tuple[LoraComponent, float | None, float], dict[str, nn.Parameter]] = {}
        ratio = self.section.plus_ratio if isinstance(self.section, Lora | Dora) else 1.0
        for component, held in self.adapters.items():
            for name, parameter in held.named_parameters():
                rate = self.plans[name.partition(".")[0]].lr
                own_ratio = ratio if name.endswith(f".{UP}") else 1.0
                groups.setdefault((component, rate, own_ratio), {})[name] = parameter
        return [
            ParameterGroup(
                component,
                own,
                rate,
                own_ratio,
                component_settings(self.section, component).stop_after,
            )
            for (component, rate, own_ratio), own in groups.items()
        ]

    def extra_modules(self) -> nn.Module:
        return nn.ModuleList(self.adapters.values())

    def state_dict(self) -> dict[str, Tensor]:
        return {
            name: parameter.detach()
            for held in self.adapters.values()
            for name, parameter in held.named_parameters()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError unless names and shapes are exactly those of `state_dict`."""
        own = self.state_dict()
        if own.keys() != state.keys():
            raise ValueError(f"other adapters: {sorted(own.keys() ^ state.keys())[:4]}")
        for name, tensor in own.items():
            if tensor.shape != state[name].shape:
                raise ValueError(f"{name}: {state[name].shape} is not {tensor.shape}")
            tensor.copy_(state[name])

    def train(self, mode: bool) -> None:
        for module in (*self.components.values(), *self.adapters.values()):
            module.train(mode)

    @contextmanager
    def base_model(self) -> Iterator[None]:
        adapters = list(_each(self.adapters).values())
        strengths = [adapter.multiplier for adapter in adapters]
        for adapter in adapters:
            adapter.multiplier = 0.0
        try:
            yield
        finally:
            for adapter, strength in zip(adapters, strengths, strict=True):
                adapter.multiplier = strength

    def merged(self) -> AbstractContextManager[None]:
        return merged(self.components.values(), _each(self.adapters).values())

    def after_step(self) -> None:
        """Nothing: adapters may become as large as they like."""

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Writes an adapter file; the options' metadata wins over what is known here."""
        layers: dict[Layer, Kinds] = {
            self.plans[name].layer: adapter.tensors()
            for name, adapter in _each(self.adapters).items()
        }
        if options.fold_alpha:
            layers = {layer: with_alpha_folded(kinds) for layer, kinds in layers.items()}
        known = adapter_metadata(
            self.section,
            list(self.plans.values()),
            base=self.names.base,
            prediction=self.prediction,
            fold_alpha=options.fold_alpha,
        )
        words = {embedding.name: bundled_tensors(embedding) for embedding in options.bundle}
        file = LoraFile(layers, words, {}, known | dict(options.metadata), options.naming)
        target = path.with_name(f"{path.name}.safetensors")
        write_lora(
            target, file, self.names, naming=options.naming, dtype=options.dtype, hashes=True
        )
        return [target]


def _notes(section: Adapter, adapters: Mapping[str, AdapterModule]) -> tuple[str, ...]:
    """What a config does not tell of its adapters."""
    if not isinstance(section, LoKr) or section.full_matrix:
        return ()
    whole = sum(isinstance(each, LokrAdapter) and each.is_whole for each in adapters.values())
    if not whole:
        return ()
    return (
        f"LoKr: rank, alpha and rank dropout do not count on {whole} of {len(adapters)} layers,"
        " which are so small beside the rank that both matrices are kept whole",
    )


def _each(adapters: Mapping[LoraComponent, nn.ModuleDict]) -> dict[str, AdapterModule]:
    """Every adapter by its name."""
    found = {}
    for held in adapters.values():
        for name, adapter in held.items():
            assert isinstance(adapter, AdapterModule)
            found[name] = adapter
    return found
