"""Construction of a layer's adapter of any variant."""

import torch

from modules import seeds
from modules.memory.residency import move_module
from modules.methods.adapters.dropout import Dropouts
from modules.methods.adapters.layer_settings import AdapterPlan
from modules.methods.adapters.loha import LohaAdapter
from modules.methods.adapters.lokr import LokrAdapter
from modules.methods.adapters.lora import DoraAdapter, LoraAdapter
from modules.methods.adapters.oft import OftAdapter
from onetrainer.config.methods.adapters import Adapter, Dora, LoHa, LoKr, Lora, Oft

AdapterModule = LoraAdapter | DoraAdapter | LohaAdapter | LokrAdapter | OftAdapter


def make_adapter(name: str, plan: AdapterPlan, section: Adapter, *, seed: int) -> AdapterModule:
    """Make an adapter without effect, in float32 on its layer's device, not attached yet.

    Its values depend on the seed and its name alone.
    """
    # LyCORIS samples initial values from the global generator, whose state must not change.
    with torch.random.fork_rng(devices=[]):
        adapter = _build_adapter(name, plan, section)
    adapter.initialize(seeds.generator(seed, f"lora-init {name}"))
    move_module(adapter, next(plan.module.parameters()).device, torch.float32)
    return adapter


def _build_adapter(name: str, plan: AdapterPlan, section: Adapter) -> AdapterModule:
    layer = plan.module
    if isinstance(section, Oft):
        return OftAdapter(
            name,
            layer,
            block_size=section.block_size,
            constraint=section.constraint,
            dropout=section.module_dropout,
        )
    rank, alpha = plan.rank, plan.alpha
    assert rank is not None
    assert alpha is not None
    dropouts = Dropouts(section.dropout, section.rank_dropout, section.module_dropout)
    match section:
        case Lora():
            return LoraAdapter(name, layer, rank=rank, alpha=alpha, dropouts=dropouts)
        case Dora():
            return DoraAdapter(name, layer, rank=rank, alpha=alpha, dropouts=dropouts)
        case LoHa():
            return LohaAdapter(name, layer, rank=rank, alpha=alpha, dropouts=dropouts)
        case LoKr():
            return LokrAdapter(
                name, layer, rank=rank, alpha=alpha, section=section, dropouts=dropouts
            )
