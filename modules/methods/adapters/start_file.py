"""Continuing the training of an adapter file, in any naming."""

from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path

from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_keys import AdapterTensors, rank_of
from modules.formats.lora.lora_names import Layer
from modules.methods.adapters.energy import layers_of, share_left_out
from modules.methods.adapters.kind import AdapterKind, AdapterModule
from modules.methods.adapters.registry import KINDS
from modules.methods.layers.layer_rules import format_names, layer_name
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import ALPHA, UP, is_adapter_key, is_text_encoder_key
from onetrainer.model_files.adapter_layers import ADDED


def load_start_file(
    path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule], kind: AdapterKind
) -> tuple[str, ...]:
    """Copy a file's tensors into untrained adapters and return notes for people.

    The adapters reproduce the file's effect for any alpha. Raises UserError for another kind of
    adapter, another rank, and layers that are not trained here, since they would be lost.
    """
    trained = _trainable(file)
    _require_kind(path, trained, kind)
    _require_trained(path, trained, adapters)
    for layer, adapter in adapters.items():
        if layer in trained.layers:
            _copy_tensors(path, layer, trained.layers[layer], adapter, kind)
    return (*_notes(path, trained, adapters), *_left_out(path, file))


def ranks_in(file: LoraFile | None) -> dict[Layer, int]:
    """Return the ranks of a file's layers."""
    layers = file.layers if file else {}
    return {layer: rank for layer, each in layers.items() if (rank := rank_of(each)) is not None}


def _trainable(file: LoraFile) -> LoraFile:
    """Return a file without changes of biases and norms, and with factors of changes applied."""
    layers: dict[Layer, AdapterTensors] = {}
    for layer, tensors in file.layers.items():
        kept = {key: tensor for key, tensor in tensors.items() if key not in (*ADDED, "scalar")}
        if "scalar" in tensors and (key := next((k for k in _LINEAR if k in kept), "")):
            kept[key] = kept[key] * tensors["scalar"].to(kept[key])
        if kept.keys() - {ALPHA}:
            layers[layer] = kept
    return replace(file, layers=layers)


_LINEAR = (UP, "hada_w1_a", "lokr_w1", "lokr_w1_a")
"""Matrices that a kind's change is a multiple of."""


def _left_out(path: Path, file: LoraFile) -> list[str]:
    """Return a note on what is not trained here and left out, with how much of the change it is."""
    vectors = [{key: t for key, t in each.items() if key in ADDED} for each in file.layers.values()]
    vectors = [each for each in vectors if each]
    if not vectors:
        return []
    count = "layer" if len(vectors) == 1 else "layers"
    return [
        f"{path.name}: its changes of biases and norms, of {len(vectors)} {count}, are not trained"
        f" and are left out: {share_left_out(file, vectors)}"
    ]


def without_layers(file: LoraFile, unread: Set[Layer]) -> LoraFile:
    """Return a file without layers that nothing reads; other programs, and we once, train them."""
    kept = {layer: tensors for layer, tensors in file.layers.items() if layer not in unread}
    return replace(file, layers=kept)


def _require_kind(path: Path, file: LoraFile, kind: AdapterKind) -> None:
    title = kind.section.title
    for layer, tensors in file.layers.items():
        if kind.recognizes(tensors):
            continue
        name = layer_name(layer.component, layer.path)
        found = next((each for each in KINDS if KINDS[each].recognizes(tensors)), None)
        content = f"holds {found.title}" if found else f"has {', '.join(sorted(tensors))}"
        remedy = "Choose"
        if found:
            remedy = f'Choose "{found.model_fields["kind"].default}" as the method, or'
        raise UserError(
            f"{path.name}: {name} {content}",
            f"Expected a {title} file to continue from",
            f"{remedy} another file (method.start_from)",
        )


def _require_trained(path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule]) -> None:
    unknown = sorted(k for k in file.unknown if is_adapter_key(k) and not is_text_encoder_key(k))
    if unknown:
        raise UserError(
            f"{path.name}: {len(unknown)} tensors are for layers that this model does not have,"
            f" first {unknown[0]}",
            "Expected a file for the same model family",
            "Choose another file (method.start_from)",
        )
    untrained = [layer for layer in file.layers if layer not in adapters]
    if untrained:
        raise UserError(
            f"{path.name}: {len(untrained)} of its layers are not trained and would be lost:"
            f" {_format_layers(untrained)}",
            "Expected a file whose layers are all trained",
            "Train these components too, and choose more layers (method.targets) or name them"
            " (method.layers); or choose another file",
        )


def _copy_tensors(
    path: Path, layer: Layer, tensors: AdapterTensors, adapter: AdapterModule, kind: AdapterKind
) -> None:
    """Copy one layer's tensors; raise UserError if they have other sizes."""
    targets = {key: parameter.detach() for key, parameter in adapter.named_parameters()}
    reference = next(iter(targets.values()))  # its dtype and device
    loaded = {key: tensor.to(reference) for key, tensor in tensors.items()}
    where = f"{path.name}: {layer_name(layer.component, layer.path)} does not fit"
    rank, own_rank = rank_of(loaded), rank_of(targets)
    # Without ranks on both sides, shapes are compared.
    if rank is not None and own_rank is not None and rank != own_rank:
        raise UserError(
            f"{where}: its rank is {rank}, not {own_rank} as set here",
            "Expected the same sizes as in the file",
            f"Set the rank to {rank}: method.rank, that of the network, or of the layer's rule in"
            " method.layers",
        )
    started = kind.start_tensors(adapter, loaded)
    for key, target in targets.items():
        found = started.get(key)
        if found is None or (len(found), found.numel()) != (len(target), target.numel()):
            shapes = {key: tuple(t.shape) for key, t in tensors.items() if key != ALPHA}
            raise UserError(
                f"{where}: its matrices {shapes} have other sizes",
                "Expected the same sizes as in the file",
                f"Set {kind.sizes} as they were when the file was made",
            )
        target.copy_(found.view_as(target))


def _notes(path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule]) -> list[str]:
    notes = []
    if file.unknown:
        notes.append(
            f"{path.name}: {len(file.unknown)} tensors match no layer and are ignored (such as"
            f" {min(file.unknown)}): {share_left_out(file, layers_of(file.unknown).values())}"
        )
    if file.embeddings:
        tokens = ", ".join(f'"{token}"' for token in file.embeddings)
        notes.append(f"{path.name}: its embeddings are ignored: {tokens}")
    missing = [layer for layer in adapters if layer not in file.layers]
    if missing:
        notes.append(
            f"{path.name}: it lacks {len(missing)} trained layers, which start from scratch:"
            f" {_format_layers(missing)}"
        )
    return notes


def _format_layers(layers: list[Layer]) -> str:
    return format_names([layer_name(layer.component, layer.path) for layer in layers])
