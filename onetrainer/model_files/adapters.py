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


@dataclass(frozen=True)
class Adapter:
    """A LoRA or one of its relatives.

    algorithms: "LoRA", "LoHa", …, with "DoRA" among them if it splits off magnitudes.
    layers: how many of each part. ranks, alphas: the different ones; no alphas means as the ranks.
    """

    naming: str
    algorithms: Sequence[str]
    layers: Mapping[str, int]
    ranks: Sequence[int]
    alphas: Sequence[float]

    def facts(self) -> list[tuple[str, str]]:
        """Each thing there is to tell, with its label."""
        layers = ", ".join(
            f"{part} ({count} layer{'s' if count != 1 else ''})"
            for part, count in self.layers.items()
        )
        return [
            ("Method", ", ".join(self.algorithms)),
            ("Naming", self.naming),
            ("Parts", layers),
            ("Rank", ", ".join(str(rank) for rank in self.ranks)),
            ("Alpha", ", ".join(f"{alpha:g}" for alpha in self.alphas) or "not told: as the rank"),
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
    )


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
