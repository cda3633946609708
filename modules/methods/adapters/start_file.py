"""Going on from an adapter file, in whatever naming it is written."""

from collections.abc import Mapping
from pathlib import Path

from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_keys import Kinds, scale_of
from modules.formats.lora.lora_names import Layer
from modules.methods.adapters.variants import AdapterModule
from modules.methods.adapters.weight_formulas import constrain_blocks
from modules.methods.layers.layer_rules import format_names, layer_name
from onetrainer.config.methods.adapters import Adapter, Dora, LoHa, LoKr, Lora, Oft
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, UP, is_of_text_encoder

SMALL = (UP, "hada_w2_a", "lokr_w2", "lokr_w2_b")
"""The matrices that begin as zero; what another alpha would change is multiplied into one."""
TITLES = {"lora": "LoRA", "dora": "DoRA", "loha": "LoHa", "lokr": "LoKr", "oft": "OFT"}


def load_start_file(
    path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule], section: Adapter
) -> tuple[str, ...]:
    """Copies a file's tensors into untrained adapters; gives notes for people.

    The effect is the file's, whatever its alpha. Raises UserError for another kind of adapter,
    another rank, and layers that are not trained here, as these would be lost.
    """
    _require_kind(path, file, section)
    _require_trained(path, file, adapters)
    for layer, adapter in adapters.items():
        if layer in file.layers:
            _copy(path, layer, file.layers[layer], adapter, section)
    return tuple(_notes(path, file, adapters))


def _require_kind(path: Path, file: LoraFile, section: Adapter) -> None:
    for layer, kinds in file.layers.items():
        kind = _kind_of(kinds)
        if kind == section.kind:
            continue
        if kinds.keys() - {ALPHA} == {DOWN, UP, DORA} and kind != "dora":
            raise UserError(
                f"{path.name}: {layer_name(layer.component, layer.path)} holds DoRA, and its lengths are"
                " those of outputs; this program trains those of inputs",
                f"A file of {section.title} was expected to go on from",
                "Choose another file (method.start_from)",
            )
        what = f"holds {TITLES[kind]}" if kind else f"has {', '.join(sorted(kinds))}"
        remedy = f'Choose "{kind}" as the method, or' if kind else "Choose"
        raise UserError(
            f"{path.name}: {layer_name(layer.component, layer.path)} {what}",
            f"A file of {section.title} was expected to go on from",
            f"{remedy} another file (method.start_from)",
        )


def _kind_of(kinds: Kinds) -> str:
    """The method that trains such an adapter; "" if none does."""
    own = kinds.keys() - {ALPHA}
    if own == {DOWN, UP}:
        return "lora"
    if own == {DOWN, UP, DORA} and kinds[DORA].shape[0] == 1:  # lengths of inputs, as ours
        return "dora"
    if own == {"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"}:
        return "loha"
    if own and all(kind.startswith(("lokr_w1", "lokr_w2")) for kind in own):
        return "lokr"
    return "oft" if own == {"oft_blocks"} and kinds["oft_blocks"].ndim == 3 else ""


def _require_trained(path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule]) -> None:
    strange = sorted(key for key in file.unknown if not is_of_text_encoder(key))
    if strange:
        raise UserError(
            f"{path.name}: {len(strange)} tensors for layers that this model does not have,"
            f" first {strange[0]}",
            "A file for the same kind of model was expected",
            "Choose another file (method.start_from)",
        )
    lost = [layer for layer in file.layers if layer not in adapters]
    if lost:
        raise UserError(
            f"{path.name}: it has {len(lost)} layers that are not trained here and would be lost:"
            f" {_listed(lost)}",
            "A file was expected whose layers are all trained",
            "Train these networks, too, and choose more layers (method.targets) or name these"
            " (method.layers); or choose another file",
        )


def _copy(path: Path, layer: Layer, kinds: Kinds, adapter: AdapterModule, section: Adapter) -> None:
    own = {kind: parameter.detach() for kind, parameter in adapter.named_parameters()}
    like = next(iter(own.values()))  # its dtype and device
    given = {kind: tensor.to(like) for kind, tensor in kinds.items()}
    if isinstance(section, Oft):
        given["oft_blocks"] = constrain_blocks(given)
        given.pop(ALPHA, None)
    else:
        _require_rank(path, layer, given, own, section)
        # scale_of: alpha / rank in the file; adapter.scale: the same here.
        small = next((kind for kind in SMALL if kind in given), None)
        if small is not None:
            given[small] = given[small] * (scale_of(given) / adapter.scale)
    for kind, tensor in own.items():
        fits = kind in given and given[kind].flatten(1).shape == tensor.flatten(1).shape
        if not fits:
            theirs = {kind: tuple(t.shape) for kind, t in kinds.items() if kind != ALPHA}
            raise _misfit(path, layer, f"its matrices {theirs} are of other sizes", section)
        tensor.copy_(given[kind].view_as(tensor))


def _require_rank(path: Path, layer: Layer, given: Kinds, own: Kinds, section: Adapter) -> None:
    """Only where there are ranks on both sides; shapes tell the rest."""
    for kind in (DOWN, "hada_w1_b", "lokr_w2_b", "lokr_w1_b"):
        if kind in given and kind in own and len(given[kind]) != len(own[kind]):
            raise _misfit(
                path,
                layer,
                f"its rank is {len(given[kind])}, and here it is {len(own[kind])}",
                section,
                rank=len(given[kind]),
            )


def _misfit(
    path: Path, layer: Layer, what: str, section: Adapter, *, rank: int | None = None
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
        f"{path.name}: {layer_name(layer.component, layer.path)} does not fit: {what}",
        "The same sizes as in the file were expected",
        remedy,
    )


def _notes(path: Path, file: LoraFile, adapters: Mapping[Layer, AdapterModule]) -> list[str]:
    notes = []
    if file.unknown:
        notes.append(
            f"{path.name}: {len(file.unknown)} tensors belong to no layer and are left out,"
            f" first {min(file.unknown)}"
        )
    if file.embeddings:
        words = ", ".join(f'"{word}"' for word in file.embeddings)
        notes.append(f"{path.name}: the embeddings in it are left out: {words}")
    fresh = [layer for layer in adapters if layer not in file.layers]
    if fresh:
        notes.append(
            f"{path.name}: {len(fresh)} trained layers are not in it and begin anew:"
            f" {_listed(fresh)}"
        )
    return notes


def _listed(layers: list[Layer]) -> str:
    return format_names([layer_name(layer.component, layer.path) for layer in layers])
