"""Telling from a LoRA file's keys which base it was trained on.

Shapes and names come first, since every program writes them; what the metadata says comes second,
since people merge and rename files.
"""

import re
from collections.abc import Iterable, Mapping

from torch import Size

from modules.formats.lora_keys import is_of_adapter, split
from onetrainer.config.model import Base

Shapes = Mapping[str, Size]

CONTEXT = re.compile(r"attn2[._]to_[kv]$")
CONTEXT_WIDTHS: Mapping[int, Base] = {768: "sd15", 1024: "sd2", 2048: "sdxl"}
"""The width of the text that cross-attention reads."""
TEXT_INPUT = re.compile(r"^(?:lora_te_|lora_te1_|text_encoder\.|.*clip_[hl]\.).*(?:q_proj|fc1)$")
TEXT_WIDTHS: Mapping[int, Base] = {1024: "sd2"}  # 768 is SD 1.x and SDXL's first encoder
TEXT_LAYER = re.compile(r"(?:lora_te1?_|text_encoder\.|clip_[hl]\.).*layers[._](\d+)[._]")
SD15_TEXT_LAYERS = 12

SDXL_ONLY = re.compile(
    r"lora_te2_|text_encoder_2\.|clip_g\."  # a second encoder
    r"|label_emb|add_embedding"  # an embedding of sizes
    r"|transformer_blocks[._][1-9]"  # more than one block a transformer
    r"|up_blocks[._]0[._]attentions|output_blocks[._][01][._]1[._]"  # attention at the bottom
)
WORDS: Iterable[tuple[str, Base]] = (
    ("sdxl", "sdxl"),
    ("stable-diffusion-xl", "sdxl"),
    ("sd_v2", "sd2"),
    ("stable-diffusion-v2", "sd2"),
    ("sd_v1", "sd15"),
    ("stable-diffusion-v1", "sd15"),
)
"""What ss_base_model_version and modelspec.architecture begin with."""


def base_of_lora(shapes: Shapes, metadata: Mapping[str, str]) -> Base | None:
    """The base that a LoRA file is for; None if nothing in it tells.

    shapes: of every tensor in the file, by its key.
    """
    return _by_shape(shapes) or _by_name(shapes) or _by_metadata(metadata)


def likely_base(keys: Iterable[str]) -> Base | None:
    """What files that do not tell usually are for; None for files without any adapter."""
    found = [key for key in keys if is_of_adapter(key)]
    if not found:
        return None
    # Only files for two encoders number the first one.
    return "sdxl" if all(key.startswith("lora_te1_") for key in found) else "sd15"


def _by_shape(shapes: Shapes) -> Base | None:
    adapters: dict[str, dict[str, Size]] = {}
    for key, shape in shapes.items():
        if found := split(key):
            adapters.setdefault(found[0], {})[found[1]] = shape
    for pattern, widths in ((CONTEXT, CONTEXT_WIDTHS), (TEXT_INPUT, TEXT_WIDTHS)):
        for name, kinds in adapters.items():
            if pattern.search(name) and (base := widths.get(_inputs(kinds))):
                return base
    return None


def _inputs(kinds: Shapes) -> int:
    """How many numbers go into the layer; 0 if its tensors do not tell."""
    for kind in ("lora_down.weight", "hada_w1_b", "a2.weight", "diff"):
        if kind in kinds:
            return kinds[kind][1]
    halves = [
        next((kinds[kind][1] for kind in (half, f"{half}_b") if kind in kinds), 0)
        for half in ("lokr_w1", "lokr_w2")
    ]
    return halves[0] * halves[1]


def _by_name(keys: Iterable[str]) -> Base | None:
    keys = list(keys)
    if any(SDXL_ONLY.search(key) for key in keys):
        return "sdxl"
    layers = [int(found[1]) for key in keys if (found := TEXT_LAYER.search(key))]
    if any("clip_h." in key for key in keys) or max(layers, default=0) >= SD15_TEXT_LAYERS:
        return "sd2"
    return None


def _by_metadata(metadata: Mapping[str, str]) -> Base | None:
    said = (metadata.get("ss_base_model_version", ""), metadata.get("modelspec.architecture", ""))
    for word, base in WORDS:
        if any(text.startswith(word) for text in said):
            return base
    return "sd2" if metadata.get("ss_v2") == "True" else None
