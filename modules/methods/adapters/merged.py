"""Adapters as parts of their layers' weights, for what is computed without gradients."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from modules.formats.lora.lora_keys import Kinds, rank_of
from modules.memory.dither import cast_with_dither
from modules.memory.quantize import QuantizedLinear
from modules.methods.adapters.variants import AdapterModule
from modules.methods.adapters.weight_formulas import merged_weight
from modules.methods.layers.inference_mode import inference_mode
from onetrainer.model_files.adapter_keys import ALPHA


@contextmanager
def merged(networks: Collection[nn.Module], adapters: Collection[AdapterModule]) -> Iterator[None]:
    """Meanwhile the layers of adapters hold the changed weights; then the very same memory as ever.

    networks: those that have the adapters. Without gradients, in evaluation mode. Nothing is
    written over: graphs that wait for their backward stay right. Adapters of quantized layers, and
    of layers whose weights wait on another device, go on being computed beside them; those that
    are switched off stay so.
    """
    with inference_mode((*networks, *adapters)):
        originals: list[tuple[AdapterModule, float, nn.Parameter, Tensor]] = []
        try:
            for adapter in adapters:
                weight = _weight_of(adapter)
                if weight is None:
                    continue
                originals.append((adapter, adapter.multiplier, weight, weight.data))
                weight.data = _changed(weight.data, adapter)
                adapter.multiplier = 0.0
            yield
        finally:
            for adapter, strength, weight, original in originals:
                weight.data = original
                adapter.multiplier = strength


def _weight_of(adapter: AdapterModule) -> nn.Parameter | None:
    """The weight that an adapter can be added to; None where it is computed beside its layer."""
    layer = adapter.org_module[0]
    if adapter.multiplier == 0 or isinstance(layer, QuantizedLinear):
        return None
    weight: nn.Parameter = layer.weight
    return weight if weight.device == next(adapter.parameters()).device else None


def _changed(weight: Tensor, adapter: AdapterModule) -> Tensor:
    """The weight with its adapter, computed in float32 at least and cast once.

    A weight of 16 bits keeps small changes on average: see `dithered`.
    """
    exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
    with torch.autocast(weight.device.type, enabled=False):
        changed = merged_weight(exact, _kinds(adapter, exact.dtype), adapter.multiplier)
    return cast_with_dither(changed, weight.dtype)


def _kinds(adapter: AdapterModule, dtype: torch.dtype) -> Kinds:
    """An adapter's tensors, where they are; its alpha in main memory, so that nobody waits."""
    kinds = {kind: t.to(dtype) for kind, t in adapter.tensors().items() if kind != ALPHA}
    rank = rank_of(kinds)
    return kinds if rank is None else {**kinds, ALPHA: torch.tensor(adapter.scale * rank)}
