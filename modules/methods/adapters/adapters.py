"""Training of adapters: small matrices attached to layers with frozen weights.

`layer_settings` chooses the layers; the file of each kind computes its adapter.
"""

from collections.abc import Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from modules import seeds
from modules.formats.embeddings.embedding_file import bundled_tensors
from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.formats.lora.lora_keys import AdapterTensors
from modules.formats.lora.lora_names import Layer, LayerNames, LoraComponent
from modules.formats.lora.lora_readers import reader_notes
from modules.interfaces import ExportOptions, Family, Method, ParameterGroup
from modules.memory.residency import move_module
from modules.methods.adapters.export import adapter_metadata, with_alpha_folded
from modules.methods.adapters.kind import AdapterKind, AdapterModule, AdapterPlan
from modules.methods.adapters.layer_settings import plan_adapters
from modules.methods.adapters.lean_product import MatrixCopies
from modules.methods.adapters.merged import merged, tensors_of
from modules.methods.adapters.registry import kind_of
from modules.methods.adapters.start_file import load_start_file, ranks_in, without_layers
from modules.methods.adapters.weight_formulas import low_rank_change
from modules.methods.layers.layer_presets import (
    adapter_name,
    layer_names,
    networks_of,
    unread_layers,
)
from onetrainer.config.base.amount import known
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.components import component_settings, trained_components
from onetrainer.config.methods.low_rank import LoHa, LoKr, Lora, LowRank
from onetrainer.config.run.output import LoraNaming
from onetrainer.families.spec import Prediction
from onetrainer.model_files.adapters import resolve_start_rank


@dataclass(frozen=True)
class Adapters(Method):
    """Adapters attached to a family.

    Attributes:
        adapters: By component ("unet", "te" …), then by `adapter_name`; float32.
        plans: The layer and settings of each adapter, by its name.
        components: The networks they are attached to.
        copies: The matrices in their layers' dtype, while a step is made.
        notes: Notes for people on the adapters and their start file.
        unread: Beginnings of names in checkpoints of earlier versions, which also trained layers
            that nothing reads.
    """

    adapters: Mapping[LoraComponent, nn.ModuleDict]
    plans: Mapping[str, AdapterPlan]
    components: Mapping[LoraComponent, nn.Module]
    names: LayerNames
    prediction: Prediction
    kind: AdapterKind
    copies: MatrixCopies
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @staticmethod
    def attach(family: Family, section: Adapter, *, seed: int) -> "Adapters":
        """Attach adapters to the family's chosen layers.

        They have no effect at first, or that of the start file. Initial values depend on the seed
        and each layer's name alone.

        Raises:
            UserError: For patterns that match no layer, and for a start file that does not fit.
        """
        names, networks, unread = layer_names(family), networks_of(family), unread_layers(family)
        file = _start_file(section, names, unread)
        ranks = ranks_in(file) if isinstance(section, LowRank) and not section.rank else {}
        if isinstance(section, LowRank) and not section.rank:
            section = resolve_start_rank(section)
        components = {name: networks[name] for name in trained_components(section, family.name)}
        kind = kind_of(section)
        adapters: dict[LoraComponent, nn.ModuleDict] = {
            component: nn.ModuleDict() for component in components
        }
        plans_by_name: dict[str, AdapterPlan] = {}
        wanted, notes = plan_adapters(
            components, section, unread=family.unread_modules(), ranks=ranks
        )
        for plan in wanted:
            name = adapter_name(plan.layer)
            plans_by_name[name] = plan
            adapters[plan.layer.component][name] = make_adapter(name, plan, kind, seed=seed)
        trained = {component: modules for component, modules in adapters.items() if modules}
        by_name = _adapters_by_name(trained)
        notes += kind.notes(by_name.values())
        if file is not None:
            by_layer = {plans_by_name[name].layer: adapter for name, adapter in by_name.items()}
            notes += load_start_file(Path(section.start_from), file, by_layer, kind)
        for adapter in by_name.values():
            adapter.apply_to()
        prediction = family.process.prediction
        left_out = tuple(f"{adapter_name(layer)}." for layer in unread)
        return Adapters(
            trained,
            plans_by_name,
            components,
            names,
            prediction,
            kind,
            MatrixCopies(by_name.values()),
            notes,
            left_out,
        )

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return one group for each component, learning rate and LoRA+ ratio."""
        groups: dict[tuple[LoraComponent, float | None, float], dict[str, nn.Parameter]] = {}
        for component, modules in self.adapters.items():
            for name, parameter in modules.named_parameters():
                rate = self.plans[name.partition(".")[0]].lr
                ratio = self.kind.lr_ratio(name)
                groups.setdefault((component, rate, ratio), {})[name] = parameter
        return [
            ParameterGroup(
                component,
                parameters,
                rate,
                ratio,
                known(component_settings(self.kind.section, component).stop_after),
            )
            for (component, rate, ratio), parameters in groups.items()
        ]

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        super().load_state_dict(
            {name: value for name, value in state.items() if not name.startswith(self.unread)}
        )

    def extra_modules(self) -> nn.Module:
        return nn.ModuleList(self.adapters.values())

    def train(self, mode: bool) -> None:
        for module in (*self.components.values(), *self.adapters.values()):
            module.train(mode)

    def base_model(self) -> AbstractContextManager[None]:
        return self.at_strength(0.0)

    @contextmanager
    def at_strength(self, strength: float) -> Iterator[None]:
        adapters = list(_adapters_by_name(self.adapters).values())
        before = [adapter.multiplier for adapter in adapters]
        for adapter in adapters:
            adapter.multiplier *= strength
        try:
            yield
        finally:
            for adapter, multiplier in zip(adapters, before, strict=True):
                adapter.multiplier = multiplier

    def begin_microbatch(self) -> None:
        self.copies.make()

    def after_step(self) -> None:
        """Scale adapters down whose change is larger than `max_norm`."""
        self.copies.drop()
        section = self.kind.section
        if not isinstance(section, Lora | LoHa | LoKr) or not section.max_norm:
            return
        with torch.no_grad():
            for adapter in _adapters_by_name(self.adapters).values():
                limit_norm(adapter, section.max_norm)

    def merged(self) -> AbstractContextManager[None]:
        return merged(self.components.values(), _adapters_by_name(self.adapters).values())

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write an adapter file; the options' metadata overrides the adapters' own."""
        layers: dict[Layer, AdapterTensors] = {
            self.plans[name].layer: adapter.tensors()
            for name, adapter in _adapters_by_name(self.adapters).items()
        }
        if options.fold_alpha:
            layers = {
                layer: with_alpha_folded(self.kind, tensors) for layer, tensors in layers.items()
            }
        known = adapter_metadata(
            self.kind,
            list(self.plans.values()),
            base=self.names.base,
            prediction=self.prediction,
            fold_alpha=options.fold_alpha,
        )
        tokens = {embedding.name: bundled_tensors(embedding) for embedding in options.bundle}
        file = LoraFile(layers, tokens, {}, known | dict(options.metadata), options.naming)
        target = path.with_name(f"{path.name}.safetensors")
        write_lora(
            target, file, self.names, naming=options.naming, dtype=options.dtype, hashes=True
        )
        return [target]

    def reader_notes(self, naming: LoraNaming) -> list[str]:
        adapters = _adapters_by_name(self.adapters).values()
        return reader_notes((adapter.tensors() for adapter in adapters), naming)


def make_adapter(name: str, plan: AdapterPlan, kind: AdapterKind, *, seed: int) -> AdapterModule:
    """Make an adapter without effect, in float32 on its layer's device, not attached yet.

    Its values depend on the seed and its name alone.
    """
    # LyCORIS samples initial values from the global generator, whose state must not change.
    with torch.random.fork_rng(devices=[]):
        adapter = type(kind).module(name, plan, kind.section)
    adapter.initialize(seeds.generator(seed, f"lora-init {name}"))
    move_module(adapter, next(plan.module.parameters()).device, torch.float32)
    return adapter


def limit_norm(adapter: AdapterModule, max_norm: float) -> None:
    """Scale the matrices of a LoRA, LoHa or LoKr so that its change has at most a norm.

    Each by the same factor, as in sd-scripts (`scale_weight_norms`). Nothing is read from the
    device, and smaller changes keep every bit.
    """
    matrices = list(adapter.parameters())
    norm = torch.linalg.vector_norm(low_rank_change(tensors_of(adapter, torch.float32)))
    factor = (max_norm / norm).clamp(max=1) ** (1 / len(matrices))
    for matrix in matrices:
        matrix.mul_(factor)


def _start_file(section: Adapter, names: LayerNames, unread: Set[Layer]) -> LoraFile | None:
    """Return the file that training continues from; None for a start from scratch."""
    if not section.start_from:
        return None
    return without_layers(read_lora(Path(section.start_from), names), unread)


def _adapters_by_name(adapters: Mapping[LoraComponent, nn.ModuleDict]) -> dict[str, AdapterModule]:
    """Return every adapter by its name."""
    plans_by_name = {}
    for modules in adapters.values():
        for name, adapter in modules.items():
            assert isinstance(adapter, AdapterModule)
            plans_by_name[name] = adapter
    return plans_by_name
