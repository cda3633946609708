"""Detection of the base model of a LoRA file from its keys, shapes and metadata.

Shapes and names come first, since every program writes them; metadata comes second, since people
merge and rename files. If neither is clear, the family is unknown: any guess would be wrong for
some files, and a LoRA on the wrong model has no effect or a bad one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from onetrainer.model_files.adapter_keys import split
from onetrainer.model_files.embedding_keys import BUNDLE
from onetrainer.model_files.kinds import CONTEXT_WIDTHS, Kind

Shapes = Mapping[str, Sequence[int]]

# Models that have a transformer in the UNet's place: Flux, SD 3, HunyuanVideo, Wan and others. Some
# share text encoders with SDXL, whose keys prove nothing then.
_OTHER_ARCHITECTURES = re.compile(
    r"^(?:base_model\.model\.)?transformer\.|^lora_transformer_|^lora_te3_|t5xxl"
    r"|(?:double|single|joint)_blocks[._]\d|transformer_blocks[._]\d+[._]attn[._]"
)
_FROM_OTHER_ARCHITECTURES: frozenset[Kind] = frozenset({"flux", "sd3"})

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

_METADATA_PREFIXES: tuple[tuple[str, Kind], ...] = (
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
"""Prefixes of ss_base_model_version and modelspec.architecture."""
_METADATA_KEYS = ("ss_base_model_version", "modelspec.architecture")


def family_of_adapter(shapes: Shapes, metadata: Mapping[str, str]) -> Kind | None:
    """Return the model that a LoRA file is for; None if unclear.

    shapes: Shapes of all tensors by key. Inpainting models count as their base.
    """
    layers = _layers(shapes)
    stated = family_by_metadata(metadata)
    if any(_OTHER_ARCHITECTURES.search(name) for name in layers):
        return stated if stated in _FROM_OTHER_ARCHITECTURES else None
    families = {kind for name, tensors in layers.items() if (kind := _layer_family(name, tensors))}
    if "sdxl-refiner" in families:
        families.discard("sdxl")  # most of its names are SDXL's
    return _only(families) if families else stated


def is_for_other_architecture(shapes: Shapes) -> bool:
    """Return whether a LoRA is for a model with a transformer instead of a UNet, such as Flux."""
    return any(_OTHER_ARCHITECTURES.search(name) for name in _layers(shapes))


def _layers(shapes: Shapes) -> dict[str, dict[str, Sequence[int]]]:
    """Group the shapes by layer and kind of tensor."""
    layers: dict[str, dict[str, Sequence[int]]] = {}
    for key, shape in shapes.items():
        if not key.startswith(BUNDLE):
            name, kind = split(key) or (key, "")
            layers.setdefault(name, {})[kind] = shape
    return layers


def _layer_family(name: str, tensors: Shapes) -> Kind | None:
    """Return the family that one layer indicates; None if unclear."""
    if _CONTEXT.search(name) and (kind := CONTEXT_WIDTHS.get(_inputs(tensors))):
        return kind
    if _SDXL_ONLY.search(name) or _SECOND_ENCODER.search(name):
        return "sdxl"
    if (block := _DEEP.search(name)) and int(block[1]) > 0:
        return "sdxl"
    text = _FIRST_ENCODER.search(name)
    if text is None:
        return None
    width = 0 if text[2] == "fc2" else _inputs(tensors)  # fc2 has the wider layer as input
    if "clip_h." in name or int(text[1]) >= _SD15_TEXT_LAYERS or width == _SD2_TEXT_WIDTH:
        return "sd2"
    # SDXL's and Flux's first text encoder is SD 1.x's.
    return "sd15" if _ONLY_ENCODER.search(name) and width == _SD15_TEXT_WIDTH else None


def _inputs(tensors: Shapes) -> int:
    """Return the number of inputs of a layer; 0 if unknown."""
    for kind in ("lora_down.weight", "hada_w1_b", "a2.weight", "diff"):
        if kind in tensors:
            return _second(tensors[kind])
    halves = [
        next((_second(tensors[kind]) for kind in (f"{half}_b", half) if kind in tensors), 0)
        for half in ("lokr_w1", "lokr_w2")
    ]
    return halves[0] * halves[1]


def _second(shape: Sequence[int]) -> int:
    return shape[1] if len(shape) > 1 else 0


def family_by_metadata(metadata: Mapping[str, str]) -> Kind | None:
    """Return the model that the metadata names; None if it names none, or several."""
    families = {kind for key in _METADATA_KEYS if (kind := _stated_family(metadata.get(key, "")))}
    if not families and metadata.get("ss_v2") == "True":
        return "sd2"
    return _only(families)


def _stated_family(value: str) -> Kind | None:
    return next(
        (kind for prefix, kind in _METADATA_PREFIXES if value.lower().startswith(prefix)), None
    )


def _only(families: Iterable[Kind]) -> Kind | None:
    match list(families):
        case [kind]:
            return kind
    return None
