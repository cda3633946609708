"""The difference of two models as a LoRA."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic

import torch
from torch import Size, Tensor, nn

from modules.formats.files.tensor_source import LazyTensor, as_lazy
from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_names import Layer, LayerNames, canonical_path
from modules.formats.models.component_shapes import build_empty
from modules.formats.models.whole_model import Tensors, WholeModel
from modules.lora_tools.bake import names_of_model
from modules.lora_tools.lora_layers import LayerChange, lora_layers
from modules.lora_tools.losses import LayerLoss
from modules.lora_tools.low_rank import RankLimit
from onetrainer.errors import UserError
from onetrainer.families.registry import component_of, folder_of, lora_components
from onetrainer.messages.formatting import counted, some
from onetrainer.run.events import Phase, Report

_SECONDS_PER_PHASE = 1.0


@dataclass
class _Remainder:
    """What a LoRA cannot hold: changed norms, biases, embeddings. energy: sum of squares."""

    names: list[str] = field(default_factory=list)
    energy: float = 0.0


def difference(
    base: WholeModel,
    tuned: WholeModel,
    limit: RankLimit,
    report: Report,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[LoraFile, LayerNames, list[LayerLoss], list[str]]:
    """Return the LoRA that makes `tuned` of `base`, its names, what it lost, and notes for people.

    It holds the changes of linear layers and convolutions of the UNet and the text encoders.

    Args:
        base: The model before training.
        tuned: The one that was trained from it.
        limit: How far ranks are lowered.
        report: Takes how far it is.
        dtype: Of the LoRA's matrices.
        device: Where differences are computed, in float64.

    Raises:
        UserError: If the models have different shapes, or do not differ in these layers.
    """
    names, remainder = names_of_model(base), _Remainder()
    changes = _reported(_changes(base, tuned, names, remainder, device), report)
    layers, losses = lora_layers(changes, limit, dtype)
    if not layers:
        raise UserError(
            "The two models have the same weights in every layer that a LoRA can change",
            "Expected a model and one that was trained from it",
            "Choose other models",
        )
    notes = []
    if remainder.names:
        share = remainder.energy / (remainder.energy + sum(loss.energy for loss in losses))
        count = len(remainder.names)
        notes.append(
            f"Left out the changes of {counted(count, 'norm or bias', 'norms and biases')}, which a"
            f" LoRA cannot hold ({share:.2%} of the energy): {some(remainder.names, count)}."
        )
    if _differ(base.components["vae"], tuned.components["vae"]):
        notes.append("The VAEs differ, too: a LoRA changes none; use the second model's.")
    return LoraFile(layers, {}, {}, {}, "kohya"), names, losses, notes


def _reported(changes: Iterator[LayerChange], report: Report) -> Iterator[LayerChange]:
    """Report the number of layers now and then: decomposing takes minutes for large models."""
    reported = monotonic()
    for number, change in enumerate(changes, start=1):
        if monotonic() - reported > _SECONDS_PER_PHASE:
            reported = monotonic()
            report(Phase("saving", number, detail=f"layer {number:,}"))
        yield change


def _changes(
    base: WholeModel,
    tuned: WholeModel,
    names: LayerNames,
    remainder: _Remainder,
    device: torch.device,
) -> Iterator[LayerChange]:
    for component in lora_components(names.base):
        folder = folder_of(component)
        changeable = _changeable(component, base)
        before, after = base.components[folder], tuned.components[folder]
        for name, tensor in before.items():
            path, _, kind = name.rpartition(".")
            layer = Layer(component, path)
            delta = _difference(folder, name, tensor, after, device)
            if delta is None:
                continue
            if kind == "weight" and path in changeable:
                yield LayerChange(layer, delta.flatten(1), Size(delta.shape[1:]), {})
            else:
                remainder.names.append(f"{folder}.{name}")
                remainder.energy += float(delta.square().sum())


def _changeable(component: str, model: WholeModel) -> set[str]:
    """Return the paths of a component's linear layers and convolutions."""
    folder = folder_of(component)
    network = build_empty(component_of(component), model.description.configs[folder])
    return {
        canonical_path(component, path)
        for path, module in network.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }


def _difference(
    folder: str, name: str, tensor: Tensor | LazyTensor, others: Tensors, device: torch.device
) -> Tensor | None:
    """Return the difference in float64; None if there is none."""
    before, after = as_lazy(tensor), as_lazy(others[name])
    if before.shape != after.shape:
        raise UserError(
            f"{folder}.{name}: its shape is {tuple(before.shape)} in one model and"
            f" {tuple(after.shape)} in the other",
            "Expected a model and one that was trained from it",
            "Choose models of the same family",
        )
    if not before.dtype.is_floating_point:
        return None
    first, second = before.read(), after.read()
    if _is_rounding(first, second):
        return None
    return second.to(device, torch.float64) - first.to(device, torch.float64)


def _is_rounding(first: Tensor, second: Tensor) -> bool:
    """Return whether tensors are the same numbers, one of them rounded to a coarser type."""
    coarser = max(first.dtype, second.dtype, key=lambda dtype: torch.finfo(dtype).eps)
    return torch.equal(first.to(coarser), second.to(coarser))


def _differ(first: Mapping[str, Tensor | LazyTensor], second: Tensors) -> bool:
    return any(
        not _is_rounding(as_lazy(tensor).read(), as_lazy(second[name]).read())
        for name, tensor in first.items()
    )
