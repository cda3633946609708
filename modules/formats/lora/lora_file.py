"""LoRA files of every naming, in and out.

For each layer `lora_down.weight` (rank, in, …), `lora_up.weight` (out, rank, …) and `alpha`: the
layer's weight changes by alpha / rank * up @ down, and a missing alpha means the rank.
Source: kohya-ss/sd-scripts, networks/lora.py; LyCORIS for the other kinds of tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from modules.formats.files.files import write_safetensors
from modules.formats.files.tensor_source import open_tensors
from modules.formats.lora.lora_keys import Kinds
from modules.formats.lora.lora_metadata import metadata_as_written
from modules.formats.lora.lora_names import Layer, LayerNames, Naming
from modules.formats.lora.lora_peft import add_alphas, diffusers_tensors, from_magnitude
from modules.memory.to_device import read_flags
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import (
    ALPHA,
    DORA,
    DOWN,
    MAGNITUDE,
    MID,
    UP,
    is_of_adapter,
    is_of_lengths,
    split,
)
from onetrainer.model_files.embedding_keys import bundled, bundled_name


@dataclass(frozen=True)
class LoraFile:
    """What a LoRA file holds, whatever its naming.

    embeddings: bundled ones by their word, then by "clip_l", "clip_g" ….
    unknown: tensors that belong to no layer of the model, by their key.
    """

    layers: Mapping[Layer, Kinds]
    embeddings: Mapping[str, Mapping[str, Tensor]]
    unknown: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    naming: Naming


def read_lora(path: Path, names: LayerNames) -> LoraFile:
    """Everything a LoRA file holds, on the CPU, as it was written.

    names: of the model that it is for. Raises UserError for files without any adapter.
    """
    with open_tensors(path) as reader:
        tensors = {name: reader.read(name) for name in reader.names}
        metadata = dict(reader.metadata)
    layers: dict[Layer, dict[str, Tensor]] = {}
    embeddings: dict[str, dict[str, Tensor]] = {}
    unknown: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        if member := bundled(key):
            embeddings.setdefault(member[0], {})[member[1]] = tensor
        elif (found := split(key)) and (layer := names.find(found[0])):
            kind = DORA if found[1] == MAGNITUDE else found[1]
            layers.setdefault(layer, {})[kind] = (
                from_magnitude(tensor) if found[1] == MAGNITUDE else tensor
            )
        else:
            unknown[key] = tensor
    _set_aside_weights(layers, unknown, names)
    if not (layers or embeddings or any(map(is_of_adapter, unknown))):
        raise UserError(
            f"{path.name}: no adapter in it",
            "A LoRA file was expected",
            "Choose another file; `onetrainer show` tells what this one is",
        )
    add_alphas(layers, metadata)
    return LoraFile(layers, embeddings, unknown, metadata, detect_naming(tensors))


def detect_naming(keys: Mapping[str, object]) -> Naming:
    """The naming that a file's keys are nearest to."""
    for key in keys:
        if key.startswith(("lora_unet_", "lora_te", "lycoris_", "oft_unet_")):
            return "kohya"
        if key.startswith(("diffusion_model.", "text_encoders.")):
            return "comfyui"
    return "diffusers"


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
    """Writes a LoRA file in a naming, complete or not at all.

    dtype: None keeps each tensor's own. alpha stays float32, since half precision would round it,
    and so do DoRA's lengths: of a length of 1 half precision drops what is below 0.0005 (fp16) or
    0.004 (bf16), and training moves it by no more.
    "diffusers" has no alpha: up matrices are multiplied by alpha / rank, in float32. The metadata
    is made to tell what is written.
    Raises UserError for weights that dtype cannot hold, and for kinds that a naming has no word
    for.
    """
    tensors: dict[str, Tensor] = {}
    for layer, kinds in file.layers.items():
        name = names.name(layer, naming)
        match naming:
            case "kohya":
                own = dict(kinds)
            case "comfyui":
                own = _comfyui_kinds(kinds)
            case "diffusers":
                own = diffusers_tensors(path, names.base, layer, kinds, dtype)
        tensors |= {f"{name}.{kind}": tensor for kind, tensor in own.items()}
    for word, vectors in file.embeddings.items():
        tensors |= {bundled_name(word, key): tensor for key, tensor in vectors.items()}
    tensors |= file.unknown
    metadata = metadata_as_written(
        file.metadata, file.layers.values(), base=names.base, naming=naming
    )
    written = {key: _cast(key, tensor, dtype) for key, tensor in tensors.items()}
    _require_finite(path, written, dtype)
    write_safetensors(path, written, metadata, overwrite=overwrite, hashes=hashes)


def _comfyui_kinds(kinds: Kinds) -> dict[str, Tensor]:
    """ComfyUI knows no middle matrix beside lora_A and lora_B."""
    if MID in kinds:
        return dict(kinds)
    words = {DOWN: "lora_A.weight", UP: "lora_B.weight"}
    return {words.get(kind, kind): tensor for kind, tensor in kinds.items()}


def _cast(key: str, tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    if key.endswith(f".{ALPHA}"):
        return tensor.to(torch.float32)  # kohya's are whole numbers where people gave such
    if dtype is None or not tensor.is_floating_point():
        return tensor
    return tensor.to(torch.float32 if is_of_lengths(key) else dtype)


def _require_finite(path: Path, tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> None:
    # float: torch cannot ask numbers of one byte.
    sound = read_flags([tensor.float().isfinite().all() for tensor in tensors.values()])
    too_large = [key for key, is_sound in zip(tensors, sound, strict=True) if not is_sound]
    if too_large and dtype is None:
        raise UserError(
            f"{path.name}: {len(too_large)} tensors hold something that is no number, first"
            f" {too_large[0]}",
            "Trained weights were expected",
            "Choose another file; the training of this one went wrong",
        )
    if too_large:
        raise UserError(
            f"{path.name}: {len(too_large)} tensors do not fit the number format"
            f" {dtype}, first {too_large[0]}",
            "Expected trained weights within its range",
            "Save as fp32 or bf16 (output.precision); a lower learning rate keeps weights small.",
        )


def _set_aside_weights(
    layers: dict[Layer, dict[str, Tensor]], unknown: dict[str, Tensor], names: LayerNames
) -> None:
    """IA3 calls its tensor "weight", as every model does: without its other tensor it is none."""
    for layer in [layer for layer, kinds in layers.items() if kinds.keys() == {"weight"}]:
        unknown[f"{names.name(layer, 'diffusers')}.weight"] = layers.pop(layer)["weight"]
