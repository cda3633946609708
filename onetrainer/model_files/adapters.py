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
from onetrainer.model_files.adapter_keys import encoder_pattern
from onetrainer.model_files.embedding_keys import BUNDLE
from onetrainer.tensor_files.entries import TensorEntry, TensorTable
from onetrainer.tensor_files.table import read_table

_Method = TypeVar("_Method", bound=LowRank)

# The suffix of a key that identifies the tensor within its layer.
_SUFFIX = re.compile(
    r"""(?:\.|_(?=lora\.))(?:
        lora_(?:down|up|mid|A|B|magnitude_vector).* | lora\.(?:down|up).* |
        lora_linear_layer\..* | alpha | dora_scale | scalar | rescale | on_input | weight |
        hada_\w+ | lokr_\w+ | oft_\w+.* | diff(?:_b)? | [wb]_norm | [ab][12]\.weight | bm\.weight
    )$""",
    re.VERBOSE,
)
# The tensor whose first dimension is the rank.
_DOWN = re.compile(
    r"lora_down\.|lora_A\b|lora(?:_linear_layer)?\.down\.|\.hada_w1_b$|\.lokr_w\d_b$"
)
_FIRST_OF_LOKR = re.compile(r"\.lokr_w1(?:_a)?$")
_BLOCKS = re.compile(r"\.oft_blocks$")
_CONVOLUTION = re.compile(r"lora_down\.|lora_A\b|lora\.down\.")
_ALGORITHMS = (
    (re.compile(r"\.hada_"), "LoHa"),
    (re.compile(r"\.lokr_"), "LoKr"),
    (re.compile(r"\.oft_"), "OFT"),
    (re.compile(r"\.on_input$"), "IA3"),
    (re.compile(r"\.[ab]2\.weight$"), "GLoRA"),
    (re.compile(r"\.diff(?:_b)?$"), "full differences"),
    (re.compile(r"\.[wb]_norm$"), "norms"),
    (re.compile(r"\.lora_mid\."), "LoCon (Tucker)"),
    (re.compile(r"\.lora[._]|_lora\."), "LoRA"),
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
_WITHOUT_ALPHA = ("OFT", "IA3")


@dataclass(frozen=True)
class Adapter:
    """A LoRA or a related adapter.

    algorithms: "LoRA", "LoHa", …, including "DoRA" if it has magnitudes. layers: Number of layers
    by component. ranks, alphas: The distinct values; without alphas they equal the ranks. factors:
    Sizes of LoKr's first matrices. blocks: Sizes of OFT's blocks.
    """

    naming: str
    algorithms: Sequence[str]
    layers: Mapping[str, int]
    ranks: Sequence[int]
    alphas: Sequence[float]
    factors: Sequence[int] = ()
    blocks: Sequence[int] = ()

    def title(self) -> str:
        """Return the usual name: "a LoRA", "a DoRA", "a LoKr" …"""
        known = [_TITLES[name] for name in self.algorithms if name in _TITLES]
        has_magnitudes = "DoRA" in self.algorithms
        if len(known) == 1:
            return known[0] + (" with DoRA" if has_magnitudes else "")
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
        ]


def adapter_of(table: TensorTable) -> Adapter:
    """Return the contents of an adapter file: alphas from its data, all else from its header."""
    entries = {name: e for name, e in table.entries.items() if not name.startswith(BUNDLE)}
    layers = {_SUFFIX.sub("", name) for name in entries}
    parts = Counter(map(_component, layers))
    downs = {name: entry for name, entry in entries.items() if _DOWN.search(name) and entry.shape}
    return Adapter(
        naming=_first(_namings(), min(entries, default="")) or "unknown",
        algorithms=_algorithms(entries),
        layers={word: parts[word] for word in ("UNet", *_encoder_labels()) if word in parts},
        ranks=sorted({entry.shape[0] for entry in downs.values()}),
        alphas=_alphas(table),
        factors=_sides(entries, _FIRST_OF_LOKR, 0),
        blocks=_sides(entries, _BLOCKS, -1),
    )


def resolve_start_rank(method: _Method) -> _Method:
    """Return an adapter's settings with the rank of the file to continue from, if they leave it.

    Reads the file's header. A file with another kind of adapter is refused where it is loaded.

    Raises:
        UserError: If the file has another rank, or several where one is needed.
    """
    path = Path(method.start_from)
    if not method.start_from:
        return method
    adapter = adapter_of(read_table(path))
    found = ", ".join(map(str, adapter.ranks))
    parts = {method.unet.rank, *(encoder.rank for encoder in method.text_encoders.values())}
    parts |= {rule.rank for rule in method.layers}
    if not adapter.ranks or adapter.title() != method.noun:
        default = type(method).model_fields["rank"].default
        return method if method.rank else method.model_copy(update={"rank": default})
    if not method.rank:
        own = [rank for rank in adapter.ranks if rank not in parts] or adapter.ranks
        if len(own) > 1:
            raise UserError(
                f"{path.name}: its layers have several ranks ({found})",
                "Expected one rank for those whose rank is not set",
                "Set method.rank, and the ranks of components or of layers by name",
            )
        return method.model_copy(update={"rank": own[0]})
    if other := [rank for rank in adapter.ranks if rank not in {method.rank, *parts}]:
        raise UserError(
            f"{path.name}: layers of this file have rank {', '.join(map(str, other))}, and"
            f" method.rank is {method.rank}",
            "Expected the rank of the file to continue from",
            f"Set method.rank to {other[0]}"
            + (", or to 0 to take it from the file" if len(other) == 1 else ""),
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


def _sides(entries: Mapping[str, TensorEntry], name: re.Pattern[str], side: int) -> list[int]:
    """Return the distinct sizes of one dimension of the tensors that match a name."""
    sizes = {e.shape[side] for key, e in entries.items() if e.shape and name.search(key)}
    return sorted(sizes)


def _algorithms(entries: Mapping[str, TensorEntry]) -> list[str]:
    present = {_first(_ALGORITHMS, name) for name in entries}
    algorithms = [algorithm for _, algorithm in _ALGORITHMS if algorithm in present]
    has_kernels = any(
        _CONVOLUTION.search(name) and len(entry.shape) == 4 and entry.shape[-1] > 1
        for name, entry in entries.items()
    )
    if "LoCon (Tucker)" in algorithms:
        algorithms.remove("LoRA")
    elif "LoRA" in algorithms and has_kernels:
        algorithms[algorithms.index("LoRA")] = "LoRA with convolutions (LoCon)"
    if any(name.endswith(".dora_scale") or "magnitude_vector" in name for name in entries):
        algorithms.append("DoRA")
    return algorithms


def _alphas(table: TensorTable) -> list[float]:
    """Read the distinct alphas, each a few bytes in the file."""
    alphas = [
        entry
        for name, entry in table.entries.items()
        if name.endswith(".alpha") and entry.count == 1
    ]
    values = set()
    with table.path.open("rb", buffering=0) as file:
        for entry in sorted(alphas, key=lambda entry: entry.offset):
            file.seek(entry.offset)
            values |= _number(entry.dtype, file.read(entry.size))
    return sorted(values)


def _number(dtype: str, data: bytes) -> set[float]:
    """Return the number as a set; empty if alphas do not have this type."""
    if dtype == "BF16":  # the upper half of a float32
        dtype, data = "F32", b"\0\0" + data
    if dtype not in _NUMBERS or len(data) != struct.calcsize(_NUMBERS[dtype]):
        return set()
    return {float(struct.unpack(_NUMBERS[dtype], data)[0])}


def _first(table: Iterable[tuple[re.Pattern[str], str]], name: str) -> str:
    """Return the label of the first pattern found in a name; "" if there is none."""
    return next((label for pattern, label in table if pattern.search(name)), "")
