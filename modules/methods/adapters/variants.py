"""Making the adapter of a layer, of whichever kind is wanted."""

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
    """An adapter that changes nothing yet, in float32 beside its layer, which it is not put on.

    Its values depend on the seed and its name, on nothing else.
    """
    # LyCORIS draws initial values from the global generator, which is not ours to move.
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
