"""Reading and writing of LoRA files in every naming.

For each layer `lora_down.weight` (rank, in, …), `lora_up.weight` (out, rank, …) and `alpha`: the
layer's weight changes by alpha / rank * up @ down, and a missing alpha means the rank. Source:
kohya-ss/sd-scripts, networks/lora.py; LyCORIS for the other adapters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from modules.formats.files.files import write_safetensors
from modules.formats.files.tensor_source import open_tensors
from modules.formats.lora.lora_keys import AdapterTensors, scale_of
from modules.formats.lora.lora_metadata import metadata_as_written
from modules.formats.lora.lora_names import Layer, LayerNames, Naming
from modules.formats.lora.lora_peft import (
    add_alphas,
    diffusers_tensors,
    from_magnitude,
)
from modules.memory.to_device import read_flags
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import (
    ALPHA,
    DOWN,
    MAGNITUDE,
    MID,
    UP,
    UP_BIAS,
    is_adapter_key,
    is_magnitude_key,
    split,
)
from onetrainer.model_files.adapter_layers import adapter_layers
from onetrainer.model_files.adapter_settings import with_settings_beside
from onetrainer.model_files.adapters import naming_of
from onetrainer.model_files.embedding_keys import bundled, bundled_name


@dataclass(frozen=True)
class LoraFile:
    """Contents of a LoRA file of any naming.

    Attributes:
        embeddings: Bundled ones by their token, then by "clip_l", "clip_g" ….
        unknown: Tensors that belong to no layer of the model, by their key.
    """

    layers: Mapping[Layer, AdapterTensors]
    embeddings: Mapping[str, Mapping[str, Tensor]]
    unknown: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    naming: Naming


def read_lora(path: Path, names: LayerNames) -> LoraFile:
    """Read everything a LoRA file holds, on the CPU, as it was written.

    names: Of the model it is for.

    Raises:
        UserError: For files without an adapter, with one that is incomplete or does not fit itself,
            and with NaN or infinity.
    """
    with open_tensors(path) as reader:
        found = adapter_layers({name: reader.entry(name) for name in reader.names}, names.find)
        found.require_sound(path)
        file_tensors = {name: reader.read(name) for name in reader.names}
        metadata = with_settings_beside(path, reader.metadata)
    _require_finite(path, file_tensors)
    layers: dict[Layer, dict[str, Tensor]] = {}
    embeddings: dict[str, dict[str, Tensor]] = {}
    unknown: dict[str, Tensor] = {}
    for layer, keys in found.layers.items():
        if isinstance(layer, Layer):
            layers[layer] = {kind: _as_stored(key, file_tensors[key]) for kind, key in keys.items()}
        else:
            unknown |= {key: file_tensors[key] for key in keys.values()}
    for key in found.others:
        if member := bundled(key):
            embeddings.setdefault(member[0], {})[member[1]] = file_tensors[key]
        else:
            unknown[key] = file_tensors[key]
    if not (layers or embeddings or any(map(is_adapter_key, unknown))):
        raise UserError(
            f"{path.name}: the file contains no adapter",
            "Expected a LoRA file",
            "Choose another file; `onetrainer show` says what this one is",
        )
    add_alphas(path, layers, metadata)
    for tensors in layers.values():
        _scale_bias(tensors)
    return LoraFile(layers, embeddings, unknown, metadata, detect_naming(file_tensors))


def _as_stored(key: str, tensor: Tensor) -> Tensor:
    """Return a tensor in the shape that LyCORIS gives it."""
    parts = split(key)
    if parts is not None and parts[1] == MAGNITUDE:
        return from_magnitude(tensor)
    return tensor.reshape(()) if parts is not None and parts[1] == ALPHA else tensor


def _scale_bias(tensors: dict[str, Tensor]) -> None:
    """Replace peft's bias of the up matrix by the change of the layer's bias that it is."""
    bias = tensors.pop(UP_BIAS, None)
    if bias is not None:
        change = bias.float() * scale_of(tensors)
        tensors["diff_b"] = tensors["diff_b"] + change if "diff_b" in tensors else change


def detect_naming(keys: Iterable[str]) -> Naming:
    """Return the naming that a file's keys are closest to."""
    labels = {naming_of(key) for key in keys}
    return next((naming for label, naming in _NAMINGS.items() if label in labels), "diffusers")


_NAMINGS: Mapping[str, Naming] = {
    "kohya": "kohya", "LyCORIS": "kohya", "ComfyUI": "comfyui", "original": "comfyui",
}  # fmt: skip


def write_lora(
    path: Path,
    file: LoraFile,
    names: LayerNames,
    *,
    naming: Naming,
    dtype: torch.dtype | None,
    overwrite: bool = True,
    hashes: bool = False,
) -> None:
    """Write a LoRA file in a naming, complete or not at all.

    Metadata is adapted to the naming. "diffusers" has no alpha: up matrices are multiplied by alpha
    / rank, in float32. Alpha and DoRA's norms stay float32: of a norm of 1, half precision drops
    changes below 0.0005 (fp16) or 0.004 (bf16), and training makes no larger ones.

    dtype: Of the tensors; None keeps each tensor's own.

    Raises:
        UserError: For weights that dtype cannot hold, and adapters that a naming does not support.
    """
    file_tensors: dict[str, Tensor] = {}
    for layer, tensors in file.layers.items():
        name = names.name(layer, naming)
        match naming:
            case "kohya":
                named = dict(tensors)
            case "comfyui":
                named = _comfyui_tensors(tensors)
            case "diffusers":
                named = diffusers_tensors(path, names.base, layer, tensors, dtype)
        file_tensors |= {f"{name}.{key}": tensor for key, tensor in named.items()}
    for token, vectors in file.embeddings.items():
        file_tensors |= {bundled_name(token, key): tensor for key, tensor in vectors.items()}
    file_tensors |= file.unknown
    metadata = metadata_as_written(
        file.metadata, file.layers.values(), base=names.base, naming=naming
    )
    written = {key: _cast(key, tensor, dtype) for key, tensor in file_tensors.items()}
    _require_fit(path, written, dtype)
    write_safetensors(path, written, metadata, overwrite=overwrite, hashes=hashes)


def _comfyui_tensors(tensors: AdapterTensors) -> dict[str, Tensor]:
    """Rename the matrices; ComfyUI supports no middle matrix with lora_A and lora_B."""
    if MID in tensors:
        return dict(tensors)
    renamed = {DOWN: "lora_A.weight", UP: "lora_B.weight"}
    return {renamed.get(key, key): tensor for key, tensor in tensors.items()}


def _cast(key: str, tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    if key.endswith(f".{ALPHA}"):
        return tensor.to(torch.float32)  # kohya's files may have integers
    if dtype is None or not tensor.is_floating_point():
        return tensor
    return tensor.to(torch.float32 if is_magnitude_key(key) else dtype)


def _require_finite(path: Path, file_tensors: Mapping[str, Tensor]) -> None:
    """Raise UserError if tensors that were read are not finite."""
    if broken := _not_finite(file_tensors):
        count = f"{len(broken)} tensors contain" if len(broken) > 1 else "a tensor contains"
        first = f", the first is {broken[0]}" if len(broken) > 1 else f": {broken[0]}"
        raise UserError(
            f"{path.name}: {count} NaN or infinity{first}",
            "Expected finite weights",
            "Choose another file; the training of this one diverged, or it is damaged",
        )


def _require_fit(path: Path, file_tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> None:
    """Raise UserError if tensors to be written are not finite in a dtype."""
    if too_large := _not_finite(file_tensors):
        raise UserError(
            f"{path.name}: {len(too_large)} tensors do not fit the number format"
            f" {dtype}, first {too_large[0]}",
            "Expected weights within its range",
            "Save as fp32 or bf16 (output.precision); a lower learning rate keeps weights small",
        )


def _not_finite(file_tensors: Mapping[str, Tensor]) -> list[str]:
    # float: torch has no isfinite for fp8.
    sound = read_flags([tensor.float().isfinite().all() for tensor in file_tensors.values()])
    return [key for key, is_sound in zip(file_tensors, sound, strict=True) if not is_sound]
