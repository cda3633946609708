"""Continuing the training of an adapter file, in any naming."""

from collections.abc import Mapping
from pathlib import Path

from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_keys import AdapterTensors, scale_of
from modules.formats.lora.lora_names import Layer
from modules.methods.adapters.variants import AdapterModule
from modules.methods.adapters.weight_formulas import constrain_blocks
from modules.methods.layers.layer_rules import format_names, layer_name
from onetrainer.config.methods.adapters import Adapter, Dora, LoHa, LoKr, Lora, Oft
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, UP, is_text_encoder_key

ZERO_INITIALIZED = (UP, "hada_w2_a", "lokr_w2", "lokr_w2_b")
"""Matrices with initial values of zero; one of them is scaled to make up for another alpha."""
TITLES = {"lora": "LoRA", "dora": "DoRA", "loha": "LoHa", "lokr": "LoKr", "oft": "OFT"}


def load_start_file(
    path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule], section: Adapter
) -> tuple[str, ...]:
    """Copy a file's tensors into untrained adapters and return notes for people.

    The adapters reproduce the file's effect for any alpha. Raises UserError for another variant
    of adapter, another rank, and layers that are not trained here, since they would be lost.
    """
    _require_variant(path, file, section)
    _require_trained(path, file, adapters)
    for layer, adapter in adapters.items():
        if layer in file.layers:
            _copy_tensors(path, layer, file.layers[layer], adapter, section)
    return tuple(_notes(path, file, adapters))


def _require_variant(path: Path, file: LoraFile, section: Adapter) -> None:
    for layer, tensors in file.layers.items():
        variant = _variant_of(tensors)
        if variant == section.kind:
            continue
        name = layer_name(layer.component, layer.path)
        if tensors.keys() - {ALPHA} == {DOWN, UP, DORA} and variant != "dora":
            raise UserError(
                f"{path.name}: {name} holds DoRA with norms of outputs; this program trains norms"
                " of inputs",
                f"Expected a {section.title} file to continue from",
                "Choose another file (method.start_from)",
            )
        content = f"holds {TITLES[variant]}" if variant else f"has {', '.join(sorted(tensors))}"
        remedy = f'Choose "{variant}" as the method, or' if variant else "Choose"
        raise UserError(
            f"{path.name}: {name} {content}",
            f"Expected a {section.title} file to continue from",
            f"{remedy} another file (method.start_from)",
        )


def _variant_of(tensors: AdapterTensors) -> str:
    """Return the method that trains such an adapter; "" if none does."""
    keys = tensors.keys() - {ALPHA}
    if keys == {DOWN, UP}:
        return "lora"
    if keys == {DOWN, UP, DORA} and tensors[DORA].shape[0] == 1:  # norms of inputs
        return "dora"
    if keys == {"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"}:
        return "loha"
    if keys and all(key.startswith(("lokr_w1", "lokr_w2")) for key in keys):
        return "lokr"
    return "oft" if keys == {"oft_blocks"} and tensors["oft_blocks"].ndim == 3 else ""


def _require_trained(path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule]) -> None:
    unknown = sorted(key for key in file.unknown if not is_text_encoder_key(key))
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
    path: Path, layer: Layer, tensors: AdapterTensors, adapter: AdapterModule, section: Adapter
) -> None:
    targets = {key: parameter.detach() for key, parameter in adapter.named_parameters()}
    reference = next(iter(targets.values()))  # its dtype and device
    loaded = {key: tensor.to(reference) for key, tensor in tensors.items()}
    if isinstance(section, Oft):
        loaded["oft_blocks"] = constrain_blocks(loaded)
        loaded.pop(ALPHA, None)
    else:
        _require_rank(path, layer, loaded, targets, section)
        # scale_of: alpha / rank in the file; adapter.scale: the same here.
        scaled = next((key for key in ZERO_INITIALIZED if key in loaded), None)
        if scaled is not None:
            loaded[scaled] = loaded[scaled] * (scale_of(loaded) / adapter.scale)
    for key, target in targets.items():
        if key not in loaded or loaded[key].flatten(1).shape != target.flatten(1).shape:
            shapes = {key: tuple(t.shape) for key, t in tensors.items() if key != ALPHA}
            raise _misfit_error(path, layer, f"its matrices {shapes} have other sizes", section)
        target.copy_(loaded[key].view_as(target))


def _require_rank(
    path: Path, layer: Layer, loaded: AdapterTensors, targets: AdapterTensors, section: Adapter
) -> None:
    """Raise UserError if the ranks differ; without ranks on both sides, shapes are compared."""
    for key in (DOWN, "hada_w1_b", "lokr_w2_b", "lokr_w1_b"):
        if key in loaded and key in targets and len(loaded[key]) != len(targets[key]):
            raise _misfit_error(
                path,
                layer,
                f"its rank is {len(loaded[key])}, not {len(targets[key])} as set here",
                section,
                rank=len(loaded[key]),
            )


def _misfit_error(
    path: Path, layer: Layer, problem: str, section: Adapter, *, rank: int | None = None
) -> UserError:
    match section:
        case Lora() | Dora() | LoHa():
            settings = "method.rank"
        case LoKr():
            settings = "method.rank, factor, decompose_both and full_matrix"
        case Oft():
            settings = "method.block_size"
    remedy = f"Set {settings} as they were when the file was made"
    if rank is not None:
        remedy = (
            f"Set the rank to {rank}: method.rank, that of the network, or of the layer's rule in"
            " method.layers"
        )
    return UserError(
        f"{path.name}: {layer_name(layer.component, layer.path)} does not fit: {problem}",
        "Expected the same sizes as in the file",
        remedy,
    )


def _notes(path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule]) -> list[str]:
    notes = []
    if file.unknown:
        notes.append(
            f"{path.name}: {len(file.unknown)} tensors belong to no layer and are ignored,"
            f" first {min(file.unknown)}"
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
