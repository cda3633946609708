"""What a LoRA file and its relatives hold: naming, layers, ranks and alphas."""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onetrainer.model_files.embedding_keys import BUNDLE
from onetrainer.tensor_files import TensorEntry, TensorTable

# The layer before the suffix that says which of its tensors this is.
_SUFFIX = re.compile(
    r"""(?:\.|_(?=lora\.))(?:
        lora_(?:down|up|mid|A|B|magnitude_vector).* | lora\.(?:down|up).* |
        lora_linear_layer\..* | alpha | dora_scale | scalar | rescale | on_input | weight |
        hada_\w+ | lokr_\w+ | oft_\w+.* | diff(?:_b)? | [wb]_norm | [ab][12]\.weight | bm\.weight
    )$""",
    re.VERBOSE,
)
# The tensor whose first side is the rank.
_DOWN = re.compile(
    r"lora_down\.|lora_A\b|lora(?:_linear_layer)?\.down\.|\.hada_w1_b$|\.lokr_w\d_b$"
)
_FIRST_OF_LOKR = re.compile(r"\.lokr_w1(?:_a)?$")
_BLOCKS = re.compile(r"\.oft_blocks$")
_CONVOLUTION = re.compile(r"lora_down\.|lora_A\b|lora\.down\.")
_PARTS = (
    (re.compile(r"^lora_te2_|text_encoder_2\.|clip_g\."), "second text encoder"),
    (re.compile(r"^lora_te1?_|^text_encoder\.|\.text_encoder\.|text_encoders\.|clip_[lh]\."),
     "text encoder"),
    (re.compile(r""), "UNet"),
)  # fmt: skip
_NAMINGS = (
    (re.compile(r"^lora_(?:unet|te[12]?)_|^oft_unet_"), "kohya"),
    (re.compile(r"^lycoris_"), "LyCORIS"),
    (re.compile(r"^diffusion_model\.|^text_encoders\.|^clip_[lgh]\."), "ComfyUI"),
    (re.compile(r"^(?:base_model\.model\.)?(?:unet|text_encoder(?:_2)?)\.|^(?:down|mid|up)_block"),
     "diffusers"),
    (re.compile(r"^(?:input_blocks|middle_block|output_blocks)\."), "original"),
)  # fmt: skip
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


# Words for a file of one kind of adapter; everything else that adds to weights is called a LoRA.
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
    """A LoRA or one of its relatives.

    algorithms: "LoRA", "LoHa", …, with "DoRA" among them if it splits off magnitudes.
    layers: how many of each part. ranks, alphas: the different ones; no alphas means as the ranks.
    factors: the sizes of LoKr's first matrices. blocks: the sizes of OFT's blocks.
    """

    naming: str
    algorithms: Sequence[str]
    layers: Mapping[str, int]
    ranks: Sequence[int]
    alphas: Sequence[float]
    factors: Sequence[int] = ()
    blocks: Sequence[int] = ()

    def title(self) -> str:
        """What a person calls it: "a LoRA", "a DoRA", "a LoKr" …"""
        known = [_TITLES[word] for word in self.algorithms if word in _TITLES]
        has_lengths = "DoRA" in self.algorithms
        if len(known) == 1:
            return known[0] + (" with DoRA" if has_lengths else "")
        return "a DoRA" if has_lengths and not known else "a LoRA"

    def facts(self) -> list[tuple[str, str]]:
        """Each thing there is to tell, with its label."""
        layers = ", ".join(
            f"{part} ({count} layer{'s' if count != 1 else ''})"
            for part, count in self.layers.items()
        )
        # Whole matrices have no rank that an alpha could be measured by.
        without = (*_WITHOUT_ALPHA, *(() if self.ranks else ("LoKr",)))
        has_alpha = any(word not in without for word in self.algorithms)
        alphas = ", ".join(f"{alpha:g}" for alpha in self.alphas) or "not told: as the rank"
        ranks = ", ".join(str(rank) for rank in self.ranks)
        if "LoKr" in self.algorithms and not ranks:
            ranks = "none, the second matrices are whole"
        return [
            ("Method", ", ".join(self.algorithms)),
            ("Naming", self.naming),
            ("Parts", layers),
            ("Rank", ranks),
            ("Alpha", alphas if has_alpha else ""),
            ("Factor", ", ".join(str(factor) for factor in self.factors)),
            ("Block size", ", ".join(str(size) for size in self.blocks)),
        ]


def adapter_of(table: TensorTable) -> Adapter:
    """What a file of an adapter holds; the alphas are read from it, all else from its header."""
    entries = {name: e for name, e in table.entries.items() if not name.startswith(BUNDLE)}
    layers = {_SUFFIX.sub("", name) for name in entries}
    parts = Counter(_first(_PARTS, layer) for layer in layers)
    downs = {name: entry for name, entry in entries.items() if _DOWN.search(name) and entry.shape}
    return Adapter(
        naming=_first(_NAMINGS, min(entries, default="")) or "unknown",
        algorithms=_algorithms(entries),
        layers={word: parts[word] for _, word in reversed(_PARTS) if word in parts},
        ranks=sorted({entry.shape[0] for entry in downs.values()}),
        alphas=_alphas(table),
        factors=_sides(entries, _FIRST_OF_LOKR, 0),
        blocks=_sides(entries, _BLOCKS, -1),
    )


def _sides(entries: Mapping[str, TensorEntry], name: re.Pattern[str], side: int) -> list[int]:
    """The different lengths of one side of the tensors of a name."""
    found = {e.shape[side] for key, e in entries.items() if e.shape and name.search(key)}
    return sorted(found)


def _algorithms(entries: Mapping[str, TensorEntry]) -> list[str]:
    found = Counter(_first(_ALGORITHMS, name) for name in entries)
    words = [word for _, word in _ALGORITHMS if word in found]
    has_kernels = any(
        _CONVOLUTION.search(name) and len(entry.shape) == 4 and entry.shape[-1] > 1
        for name, entry in entries.items()
    )
    if "LoCon (Tucker)" in words:
        words.remove("LoRA")
    elif "LoRA" in words and has_kernels:
        words[words.index("LoRA")] = "LoRA with convolutions (LoCon)"
    if any(name.endswith(".dora_scale") or "magnitude_vector" in name for name in entries):
        words.append("DoRA")
    return words


def _alphas(table: TensorTable) -> list[float]:
    """The different alphas, each a few bytes somewhere in the file."""
    wanted = [
        entry
        for name, entry in table.entries.items()
        if name.endswith(".alpha") and entry.count == 1
    ]
    found = set()
    with table.path.open("rb", buffering=0) as file:
        for entry in sorted(wanted, key=lambda entry: entry.offset):
            file.seek(entry.offset)
            found |= _number(entry.dtype, file.read(entry.size))
    return sorted(found)


def _number(dtype: str, data: bytes) -> set[float]:
    """The number, if its type is one that alphas have."""
    if dtype == "BF16":  # the upper half of a float32
        dtype, data = "F32", b"\0\0" + data
    if dtype not in _NUMBERS or len(data) != struct.calcsize(_NUMBERS[dtype]):
        return set()
    return {float(struct.unpack(_NUMBERS[dtype], data)[0])}


def _first(table: Iterable[tuple[re.Pattern[str], str]], name: str) -> str:
    """The word of the first pattern found in a name; "" if none is."""
    return next((word for pattern, word in table if pattern.search(name)), "")
