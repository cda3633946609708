"""Adapters merged into their layers' weights, for inference without gradients."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from modules.formats.lora.lora_keys import AdapterTensors, rank_of
from modules.memory.dither import cast_with_dither
from modules.memory.eval_mode import inference_mode
from modules.memory.quantize import QuantizedLinear
from modules.methods.adapters.kind import AdapterModule
from modules.methods.adapters.weight_formulas import merged_weight
from onetrainer.model_files.adapter_keys import ALPHA


@contextmanager
def merged(networks: Collection[nn.Module], adapters: Collection[AdapterModule]) -> Iterator[None]:
    """Merge adapters into their layers' weights within the context; then the same memory as before.

    Networks are in evaluation mode, without gradients. Nothing is overwritten, so graphs that wait
    for their backward stay valid. Adapters of quantized layers, and of layers whose weights are
    offloaded to another device, are still computed separately; disabled ones stay disabled.

    networks: Those that have the adapters.
    """
    with inference_mode((*networks, *adapters)):
        originals: list[tuple[AdapterModule, float, nn.Parameter, Tensor]] = []
        try:
            for adapter in adapters:
                weight = _mergeable_weight(adapter)
                if weight is None:
                    continue
                originals.append((adapter, adapter.multiplier, weight, weight.data))
                weight.data = _merge(weight.data, adapter)
                adapter.multiplier = 0.0
            yield
        finally:
            for adapter, strength, weight, original in originals:
                weight.data = original
                adapter.multiplier = strength


def _mergeable_weight(adapter: AdapterModule) -> nn.Parameter | None:
    """Return the weight to merge an adapter into; None if it is computed separately."""
    layer = adapter.org_module[0]
    if adapter.multiplier == 0 or isinstance(layer, QuantizedLinear):
        return None
    weight: nn.Parameter = layer.weight
    return weight if weight.device == next(adapter.parameters()).device else None


def _merge(weight: Tensor, adapter: AdapterModule) -> Tensor:
    """Return the weight with its adapter, computed in float32 or more and cast once.

    A 16-bit weight keeps small changes on average: see `cast_with_dither`.
    """
    exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
    with torch.autocast(weight.device.type, enabled=False):
        changed = merged_weight(exact, tensors_of(adapter, exact.dtype), adapter.multiplier)
    return cast_with_dither(changed, weight.dtype)


def tensors_of(adapter: AdapterModule, dtype: torch.dtype) -> AdapterTensors:
    """Return an adapter's tensors on its device; alpha on the CPU, to avoid synchronization."""
    tensors = {key: t.to(dtype) for key, t in adapter.tensors().items() if key != ALPHA}
    rank = rank_of(tensors)
    return tensors if rank is None else {**tensors, ALPHA: torch.tensor(adapter.scale * rank)}
