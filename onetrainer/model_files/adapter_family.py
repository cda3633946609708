"""Detection of the base model of a LoRA file from its keys, shapes and metadata, by the specs.

Shapes and names come first, since every program writes them; metadata comes second, since people
merge and rename files. If neither is clear, the family is unknown: any guess would be wrong for
some files, and a LoRA on the wrong model has no effect or a bad one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from onetrainer.families.registry import narrowed, recognized_bases
from onetrainer.families.spec import EncoderSpec, FamilySpec
from onetrainer.model_files.adapter_keys import encoder_pattern, split
from onetrainer.model_files.embedding_keys import BUNDLE
from onetrainer.model_files.kinds import Kind

Shapes = Mapping[str, Sequence[int]]

# Models that have a transformer in the UNet's place: Flux, SD 3, HunyuanVideo, Wan and others. Some
# share text encoders with families of ours, whose keys prove nothing then.
_OTHER_ARCHITECTURES = re.compile(
    r"^(?:base_model\.model\.)?transformer\.|^lora_transformer_|^lora_te3_|t5xxl"
    r"|(?:double|single|joint)_blocks[._]\d|transformer_blocks[._]\d+[._]attn[._]"
)

# What an attention to the text in a UNet's transformer reads, in diffusers' or in the original
# spelling.
_CONTEXT = re.compile(
    r"(?:^|[._])(?:(?:down|up)_blocks[._]\d[._]attentions[._]\d|mid_block[._]attentions[._]0"
    r"|(?:input|output)_blocks[._]\d+[._]1|middle_block[._]1)[._]transformer_blocks[._]\d+[._]"
    r"attn2[._]to_[kv]$"
)
# A layer of CLIP: other text encoders have other names. Group: its number.
_CLIP = (
    r"(?:transformer\.)?(?:text_model[._])?"
    r"(?:encoder[._]layers[._](\d+)[._](?:self_attn|mlp)[._]|text_projection)"
)
_METADATA_KEYS = ("ss_base_model_version", "modelspec.architecture")


def family_of_adapter(shapes: Shapes, metadata: Mapping[str, str]) -> Kind | None:
    """Return the model that a LoRA file is for; None if unclear.

    shapes: Shapes of all tensors by key. Models made from others count as their base.
    """
    layers = _layers(shapes)
    stated = family_by_metadata(metadata)
    if any(_OTHER_ARCHITECTURES.search(name) for name in layers):
        others = [spec.name for spec in recognized_bases() if not spec.has_unet]
        return stated if stated in others else None
    specs = recognized_bases()
    possible = [
        found for name, tensors in layers.items() if (found := _having(name, tensors, specs))
    ]
    if not possible:
        return stated
    return _only(_families(spec for spec in specs if all(spec in found for found in possible)))


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


def _having(name: str, tensors: Shapes, specs: Iterable[FamilySpec]) -> list[FamilySpec]:
    """Return the models that a layer may be of; none if it is no proof."""
    inputs = _inputs(tensors)
    is_context = bool(_CONTEXT.search(name))
    if found := [s for s in specs if is_context and s.has_unet and s.text_width == inputs]:
        return found
    if found := [s for s in specs if s.own_layers and re.search(s.own_layers, name)]:
        return found
    found = _having_encoder(name, inputs, specs)
    return found if _only(_families(found)) else []  # several have the same text encoder


def _having_encoder(name: str, inputs: int, specs: Iterable[FamilySpec]) -> list[FamilySpec]:
    """Return the models with a layer of a text encoder: by its name, number and width."""
    found = [
        (spec, encoder, int(match.group(match.re.groups) or 0) if match.re.groups else 0)
        for spec in specs
        for encoder in spec.encoders
        if (match := _layer_pattern(encoder).search(name))
    ]
    found = [(s, encoder, n) for s, encoder, n in found if n < (encoder.depth or n + 1)] or found
    if not name.endswith("fc2"):  # it reads the wider layer
        found = [each for each in found if each[1].width == inputs] or found
    return [spec for spec, _, _ in found]


@cache
def _layer_pattern(encoder: EncoderSpec) -> re.Pattern[str]:
    start = encoder_pattern(encoder).pattern
    return re.compile(start + (_CLIP if encoder.component.has_text_level else ""))


def _families(specs: Iterable[FamilySpec]) -> list[FamilySpec]:
    """Return those that are families, or all: other models have layers of a family too."""
    return narrowed(specs, lambda spec: bool(spec.engine))


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
    stated = [spec for key in _METADATA_KEYS if (spec := _stated(metadata.get(key, "").lower()))]
    if not stated and metadata.get("ss_v2") == "True":
        stated = [spec for spec in recognized_bases() if spec.kohya_v2]
    return _only(dict.fromkeys(stated))


def _stated(text: str) -> FamilySpec | None:
    """Return the model whose name a metadata entry begins with; the longest name counts."""
    names = {
        name: spec
        for spec in recognized_bases()
        for name in (
            *(*spec.stated, spec.architecture),
            *(*spec.architectures.values(), *spec.kohya_versions.values()),
        )
    }
    longest = max((name for name in names if text.startswith(name)), key=len, default="")
    return names.get(longest)


def _only(specs: Iterable[FamilySpec]) -> Kind | None:
    match list(specs):
        case [spec]:
            return spec.name
    return None
