"""Telling from a LoRA file's keys and shapes which kind of model it was trained on.

Shapes and names come first, since every program writes them; what the metadata says comes second,
since people merge and rename files. Where neither is clear, nothing is told: every guess would be
wrong for some files, and a LoRA on the wrong model does nothing, or harm.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from onetrainer.model_files.adapter_keys import split
from onetrainer.model_files.embedding_keys import BUNDLE
from onetrainer.model_files.kinds import CONTEXT_WIDTHS, Kind

Shapes = Mapping[str, Sequence[int]]

# Models that have a transformer in the UNet's place: Flux, SD 3, HunyuanVideo, Wan and others. Some
# share text encoders with SDXL, which are no evidence then.
_OTHERS = re.compile(
    r"^(?:base_model\.model\.)?transformer\.|^lora_transformer_|^lora_te3_|t5xxl"
    r"|(?:double|single|joint)_blocks[._]\d|transformer_blocks[._]\d+[._]attn[._]"
)
_FROM_OTHERS: frozenset[Kind] = frozenset({"flux", "sd3"})

# A block of a UNet's transformers, in diffusers' or in the original spelling, with its number.
_BLOCK = (
    r"(?:^|[._])(?:(?:down|up)_blocks[._]\d[._]attentions[._]\d|mid_block[._]attentions[._]0"
    r"|(?:input|output)_blocks[._]\d+[._]1|middle_block[._]1)[._]transformer_blocks[._](\d+)[._]"
)
_CONTEXT = re.compile(_BLOCK + r"attn2[._]to_[kv]$")
_DEEP = re.compile(_BLOCK)  # only SDXL has more than one block in one place
_SDXL_ONLY = re.compile(
    r"(?:^|[._])(?:label_emb[._]0[._][02]|add_embedding[._]linear_[12])$"  # of sizes
    # Attention at the bottom of the way up.
    r"|(?:^|[._])(?:up_blocks[._]0[._]attentions[._]\d|output_blocks[._][01][._]1)[._]"
    r"(?:transformer_blocks|proj_)"
)

# A layer of CLIP: other text encoders have other names. Groups: its number, and what it reads.
_CLIP = r"(?:transformer\.)?(?:text_model[._])?encoder[._]layers[._](\d+)[._](?:self_attn|mlp)[._]"
_FIRST_ENCODER = re.compile(
    rf"(?:^|\.)(?:(?:lora|lycoris|oft)_te1?_|text_encoder\.|clip_[lh]\.){_CLIP}(\w+)$"
)
_SECOND_ENCODER = re.compile(
    r"(?:^|\.)(?:(?:lora|lycoris|oft)_te2_|text_encoder_2\.|clip_g\.)"
    rf"(?:{_CLIP}|(?:transformer\.)?(?:text_model[._])?text_projection)"
)
_ONLY_ENCODER = re.compile(r"^(?:lora|lycoris|oft)_te_")  # files for two encoders number them
_SD15_TEXT_LAYERS = 12
_SD15_TEXT_WIDTH, _SD2_TEXT_WIDTH = 768, 1024

_WORDS: tuple[tuple[str, Kind], ...] = (
    ("sdxl", "sdxl"),
    ("stable-diffusion-xl-v1-refiner", "sdxl-refiner"),
    ("stable-diffusion-xl", "sdxl"),
    ("sd_v2", "sd2"),
    ("stable-diffusion-v2", "sd2"),
    ("sd_v1", "sd15"),
    ("stable-diffusion-v1", "sd15"),
    ("flux", "flux"),
    ("sd3", "sd3"),
    ("stable-diffusion-3", "sd3"),
)
"""What ss_base_model_version and modelspec.architecture begin with."""
_SAYING = ("ss_base_model_version", "modelspec.architecture")


def family_of_adapter(shapes: Shapes, metadata: Mapping[str, str]) -> Kind | None:
    """The kind of model that a LoRA file is for; None unless something in it clearly tells.

    shapes: of every tensor in the file, by its key. Inpainting models count as their base.
    """
    layers = _layers(shapes)
    said = family_by_metadata(metadata)
    if any(_OTHERS.search(name) for name in layers):
        return said if said in _FROM_OTHERS else None
    found = {kind for name, kinds in layers.items() if (kind := _kind_of_layer(name, kinds))}
    if "sdxl-refiner" in found:
        found.discard("sdxl")  # most of its names are SDXL's
    return _only(found) if found else said


def is_for_others(shapes: Shapes) -> bool:
    """Whether a LoRA is for models with a transformer in the UNet's place, such as Flux."""
    return any(_OTHERS.search(name) for name in _layers(shapes))


def _layers(shapes: Shapes) -> dict[str, dict[str, Sequence[int]]]:
    """Each layer's shapes, by what they are of."""
    layers: dict[str, dict[str, Sequence[int]]] = {}
    for key, shape in shapes.items():
        if not key.startswith(BUNDLE):
            name, kind = split(key) or (key, "")
            layers.setdefault(name, {})[kind] = shape
    return layers


def _kind_of_layer(name: str, kinds: Shapes) -> Kind | None:
    """What one layer tells."""
    if _CONTEXT.search(name) and (kind := CONTEXT_WIDTHS.get(_inputs(kinds))):
        return kind
    if _SDXL_ONLY.search(name) or _SECOND_ENCODER.search(name):
        return "sdxl"
    if (block := _DEEP.search(name)) and int(block[1]) > 0:
        return "sdxl"
    text = _FIRST_ENCODER.search(name)
    if text is None:
        return None
    width = 0 if text[2] == "fc2" else _inputs(kinds)  # fc2 reads the wider layer between
    if "clip_h." in name or int(text[1]) >= _SD15_TEXT_LAYERS or width == _SD2_TEXT_WIDTH:
        return "sd2"
    # SDXL's and Flux's first text encoder is SD 1.x's.
    return "sd15" if _ONLY_ENCODER.search(name) and width == _SD15_TEXT_WIDTH else None


def _inputs(kinds: Shapes) -> int:
    """How many numbers go into the layer; 0 if its tensors do not tell."""
    for kind in ("lora_down.weight", "hada_w1_b", "a2.weight", "diff"):
        if kind in kinds:
            return _second(kinds[kind])
    halves = [
        next((_second(kinds[kind]) for kind in (f"{half}_b", half) if kind in kinds), 0)
        for half in ("lokr_w1", "lokr_w2")
    ]
    return halves[0] * halves[1]


def _second(shape: Sequence[int]) -> int:
    return shape[1] if len(shape) > 1 else 0


def family_by_metadata(metadata: Mapping[str, str]) -> Kind | None:
    """The kind of model that the metadata says a file is for, if it does not contradict itself."""
    found = {kind for key in _SAYING if (kind := _kind_of_word(metadata.get(key, "")))}
    if not found and metadata.get("ss_v2") == "True":
        return "sd2"
    return _only(found)


def _kind_of_word(word: str) -> Kind | None:
    return next((kind for start, kind in _WORDS if word.lower().startswith(start)), None)


def _only(found: Iterable[Kind]) -> Kind | None:
    match list(found):
        case [kind]:
            return kind
    return None
