"""The contents of a LoRA file or a related adapter: naming, layers, ranks and alphas."""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from onetrainer.config.methods.low_rank import LowRank
from onetrainer.errors import UserError
from onetrainer.families import registry
from onetrainer.families.spec import EncoderSpec
from onetrainer.model_files.adapter_keys import (
    ALPHA,
    DORA,
    DOWN,
    MID,
    WRAPPED,
    encoder_pattern,
    split,
)
from onetrainer.model_files.adapter_layers import adapter_layers, form_of, kind_of, rank_of
from onetrainer.model_files.adapter_settings import alpha_of, settings_in, with_settings_beside
from onetrainer.tensor_files.entries import TensorEntry, TensorTable
from onetrainer.tensor_files.table import read_table

_Method = TypeVar("_Method", bound=LowRank)

_ORDER = (
    *("LoHa", "LoKr", "OFT", "IA3", "GLoRA", "full differences", "norms"),
    *("LoCon (Tucker)", "LoRA with convolutions (LoCon)", "LoRA", "DoRA"),
)
_NUMBERS: Mapping[str, str] = {"F64": "<d", "F32": "<f", "F16": "<e", "I64": "<q", "I32": "<i"}


# Titles of files with one adapter type; any other additive adapter is called a LoRA.
_TITLES: Mapping[str, str] = {
    "LoHa": "a LoHa",
    "LoKr": "a LoKr",
    "OFT": "an OFT",
    "IA3": "an IA3",
    "GLoRA": "a GLoRA",
}
_WITHOUT_ALPHA = ("OFT", "IA3", "norms", "full differences")


@dataclass(frozen=True)
class Adapter:
    """A LoRA or a related adapter.

    algorithms: "LoRA", "LoHa", …, including "DoRA" if it has magnitudes. layers: Number of layers
    by component. ranks, alphas: The distinct values; without alphas they equal the ranks. factors:
    Sizes of LoKr's first matrices. blocks: Sizes of OFT's blocks. problems: Why it cannot be used.
    usual_rank: The rank of most layers; 0 without ranks.
    """

    naming: str
    algorithms: Sequence[str]
    layers: Mapping[str, int]
    ranks: Sequence[int]
    alphas: Sequence[float]
    factors: Sequence[int] = ()
    blocks: Sequence[int] = ()
    problems: Sequence[str] = ()
    usual_rank: int = 0

    def title(self) -> str:
        """Return the usual name: "a LoRA", "a DoRA", "a LoKr" …"""
        known = [_TITLES[name] for name in self.algorithms if name in _TITLES]
        has_magnitudes = "DoRA" in self.algorithms
        if len(known) == 1:
            return known[0] + (" with DoRA" if has_magnitudes else "")
        if not self.algorithms:
            return "an adapter"
        return "a DoRA" if has_magnitudes and not known else "a LoRA"

    def facts(self) -> list[tuple[str, str]]:
        """Return labels and values that describe the adapter."""
        layers = ", ".join(
            f"{component} ({count} layer{'s' if count != 1 else ''})"
            for component, count in self.layers.items()
        )
        # Full matrices have no rank, so alpha has no meaning.
        without = (*_WITHOUT_ALPHA, *(() if self.ranks else ("LoKr",)))
        has_alpha = any(name not in without for name in self.algorithms)
        alphas = ", ".join(f"{alpha:g}" for alpha in self.alphas) or "not stored: equals the rank"
        ranks = ", ".join(str(rank) for rank in self.ranks)
        if "LoKr" in self.algorithms and not ranks:
            ranks = "none, the second matrices are full"
        return [
            ("Method", ", ".join(self.algorithms)),
            ("Naming", self.naming),
            ("Components", layers),
            ("Rank", ranks),
            ("Alpha", alphas if has_alpha else ""),
            ("Factor", ", ".join(str(factor) for factor in self.factors)),
            ("Block size", ", ".join(str(size) for size in self.blocks)),
            *(("Cannot be used", problem) for problem in self.problems),
        ]


def adapter_of(table: TensorTable) -> Adapter:
    """Return the contents of an adapter file: alphas from its data, all else from its header."""
    found = adapter_layers(table.entries)
    layers = [_Layer(table.entries, tensors) for tensors in found.layers.values()]
    parts = Counter(_component(layer.name) for layer in layers)
    ranks = Counter(rank for layer in layers if (rank := rank_of(layer.shapes)) is not None)
    try:
        alphas, problems = _alphas(table, layers), found.problems
    except UserError as error:
        alphas, problems = set(), (*found.problems, error.what)
    return Adapter(
        naming=naming_of(layers[0].name if layers else min(table.entries, default="")),
        algorithms=_algorithms(layers),
        layers={word: parts[word] for word in ("UNet", *_encoder_labels()) if word in parts},
        ranks=sorted(ranks),
        alphas=sorted(alphas),
        factors=_sides(layers, ("lokr_w1", "lokr_w1_a"), 0),
        blocks=_sides(layers, ("oft_blocks",), -1),
        problems=problems,
        usual_rank=max(ranks, key=lambda rank: (ranks[rank], rank), default=0),
    )


class _Layer:
    """A layer by the kinds of its tensors: its name as written, their shapes and their keys."""

    def __init__(self, entries: Mapping[str, TensorEntry], keys: Mapping[str, str]) -> None:
        self.keys = keys
        self.shapes = {kind: entries[key].shape for kind, key in keys.items()}
        self.name = next(found[0] for key in keys.values() if (found := split(key)))

    @property
    def has_kernel(self) -> bool:
        """Whether it is a convolution of more than one pixel."""
        return self.shapes.get(DOWN, ())[2:3] > (1,)


def naming_of(name: str) -> str:
    """Return the label of the naming that a layer's name, or a key, is closest to."""
    return next((label for form, label in _namings() if form.search(name)), "unknown")


def adapter_at(path: Path) -> Adapter:
    """Return the contents of an adapter file that is to be used.

    Raises UserError if it cannot be read, holds no adapter, or one that is incomplete.
    """
    table = read_table(path)
    adapter_layers(table.entries).require_sound(path)
    return adapter_of(table)


def resolve_start_rank(method: _Method) -> _Method:
    """Return an adapter's settings with the rank of the file to continue from, if they leave it.

    The most frequent rank of a file with several: each of its layers keeps its own. Reads the
    file's header. A file with another kind of adapter is refused where it is loaded.

    Raises:
        UserError: If the file has another rank, or cannot be used.
    """
    path = Path(method.start_from)
    if not method.start_from:
        return method
    adapter = adapter_at(path)
    if not adapter.ranks or adapter.title() != method.noun:
        default = type(method).model_fields["rank"].default
        return method if method.rank else method.model_copy(update={"rank": default})
    if not method.rank:
        return method.model_copy(update={"rank": adapter.usual_rank})
    parts = {method.unet.rank, *(encoder.rank for encoder in method.text_encoders.values())}
    parts |= {rule.rank for rule in method.layers}
    if other := [rank for rank in adapter.ranks if rank not in {method.rank, *parts}]:
        raise UserError(
            f"{path.name}: layers of this file have rank {', '.join(map(str, other))}, and"
            f" method.rank is {method.rank}",
            "Expected the rank of the file to continue from",
            "Set method.rank to 0 to take the ranks from the file"
            + (f", or to {other[0]}" if len(adapter.ranks) == 1 else ""),
        )
    return method


def _encoders() -> list[EncoderSpec]:
    return [encoder for spec in registry.FAMILIES for encoder in spec.encoders]


def _component(layer: str) -> str:
    """Return the label of a layer's component."""
    found = (e.label for e in _encoders() if encoder_pattern(e).search(layer))
    return next(found, "text encoder" if "text_encoders." in layer else "UNet")


def _encoder_labels() -> list[str]:
    return list(dict.fromkeys(("text encoder", *(encoder.label for encoder in _encoders()))))


def _namings() -> tuple[tuple[re.Pattern[str], str], ...]:
    lora = "|".join(name for encoder in _encoders() for name in encoder.lora_names)
    comfy = "|".join(name for encoder in _encoders() for name in encoder.comfy_names)
    folders = "|".join(encoder.component.folder for encoder in _encoders())
    return (
        (re.compile(rf"^lora_(?:unet|{lora})_|^oft_unet_"), "kohya"),
        (re.compile(r"^lycoris_"), "LyCORIS"),
        (re.compile(rf"^diffusion_model\.|^text_encoders\.|^(?:{comfy})\."), "ComfyUI"),
        (re.compile(rf"^(?:base_model\.model\.)?(?:unet|{folders})\.|^(?:down|mid|up)_block"),
         "diffusers"),
        (re.compile(r"^(?:input_blocks|middle_block|output_blocks)\."), "original"),
    )  # fmt: skip


def _sides(layers: Iterable[_Layer], kinds: Sequence[str], side: int) -> list[int]:
    """Return the distinct sizes of one dimension of the tensors of some kinds."""
    shapes = (layer.shapes.get(kind, ()) for layer in layers for kind in kinds)
    return sorted({shape[side] for shape in shapes if shape})


def _algorithms(layers: Sequence[_Layer]) -> list[str]:
    found = set()
    for layer in layers:
        form = form_of(layer.keys.keys())
        found.add(form.name if form and MID not in layer.keys else kind_of(layer.keys.keys()))
        found |= {"DoRA"} if DORA in layer.keys else set()
        found |= {"full differences"} if "diff_b" in layer.keys else set()
    if "LoRA" in found and any(layer.has_kernel for layer in layers):
        found = found - {"LoRA"} | {"LoRA with convolutions (LoCon)"}
    return [each for each in _ORDER if each in found]


def _alphas(table: TensorTable, layers: Iterable[_Layer]) -> set[float]:
    """Return the distinct alphas: of the file, each a few bytes, and those of its settings."""
    settings = settings_in(table.path, with_settings_beside(table.path, table.metadata))
    values, stored = set(), []
    for layer in layers:
        if ALPHA in layer.keys:
            stored.append(table.entries[layer.keys[ALPHA]])
            continue
        component, path = _place(layer.name)
        alpha = alpha_of(settings, component, path, rank_of(layer.shapes))
        values |= set() if alpha is None else {alpha}
    with table.path.open("rb", buffering=0) as file:
        for entry in sorted(stored, key=lambda entry: entry.offset):
            file.seek(entry.offset)
            values |= _number(entry.dtype, file.read(entry.size)) if entry.count == 1 else set()
    return values


def _place(name: str) -> tuple[str, str]:
    """Return the folder of a layer's network and its path there, of a name in peft's naming."""
    bare = name.removeprefix(WRAPPED)
    folder, _, path = bare.partition(".")
    folders = ("unet", *(encoder.component.folder for encoder in _encoders()))
    return (folder, path) if folder in folders else ("unet", bare)


def _number(dtype: str, data: bytes) -> set[float]:
    """Return the number as a set; empty if alphas do not have this type."""
    if dtype == "BF16":  # the upper half of a float32
        dtype, data = "F32", b"\0\0" + data
    if dtype not in _NUMBERS or len(data) != struct.calcsize(_NUMBERS[dtype]):
        return set()
    return {float(struct.unpack(_NUMBERS[dtype], data)[0])}
