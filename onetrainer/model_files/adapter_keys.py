"""Parsing of the keys of LoRA files into a layer name and a kind of tensor.

Kinds have the names of LyCORIS, which extend kohya's: "lora_down.weight", "alpha", "hada_w1_a" and
so on. Source: LyCORIS, modules/*.py (`weight_list`); for the other spellings peft and diffusers,
utils/state_dict_utils.py.
"""

import re
from functools import cache

from onetrainer.families import registry
from onetrainer.families.spec import EncoderSpec

DOWN, UP, MID, ALPHA, DORA = (
    "lora_down.weight",
    "lora_up.weight",
    "lora_mid.weight",
    "alpha",
    "dora_scale",
)
MAGNITUDE = "magnitude"
"""peft's DoRA scale, whose shape differs from that of `dora_scale`."""
UP_BIAS = "lora_up.bias"
"""peft's bias of the up matrix (`lora_bias`), which alpha / rank scales too."""
WRAPPED = "base_model.model."
"""The prefix that peft adds to a model's keys."""

KINDS = (
    *(DOWN, UP, MID, ALPHA, DORA, "scalar", UP_BIAS),
    *("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b", "hada_t1", "hada_t2"),
    *("lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b", "lokr_t2"),
    *("oft_blocks", "rescale"),
    *("a1.weight", "a2.weight", "b1.weight", "b2.weight", "bm.weight"),
    *("diff", "diff_b", "w_norm", "b_norm", "on_input", "weight"),
)
OTHER_SPELLINGS = {
    "lora_A.weight": DOWN,
    "lora_B.weight": UP,
    "lora_B.bias": UP_BIAS,
    "lora.down.weight": DOWN,
    "lora.up.weight": UP,
    "lora_linear_layer.down.weight": DOWN,
    "lora_linear_layer.up.weight": UP,
    "lora_magnitude_vector.weight": MAGNITUDE,
    "lora_magnitude_vector": MAGNITUDE,
}
ENDINGS = sorted(
    [(f".{kind}", kind) for kind in KINDS]
    + [(f".{spelling}", kind) for spelling, kind in OTHER_SPELLINGS.items()],
    key=lambda ending: -len(ending[0]),  # ".weight" ends most of the others
)

ADAPTER = re.compile(
    r"\.(default(?:_\d+)?)(?=\.|$)"
    r"|(?<=\.lora_[AB])\.(?!(?:weight|bias)$)([^.].*?)(?=\.(?:weight|bias)$)"
    r"|(?<=\.lora_magnitude_vector)\.(?!weight$)([^.].*?)(?=\.weight$|$)"
)
"""The name of an adapter within peft's keys, "default" for an unnamed one."""
FOREIGN = re.compile(
    r"^(?:lora|lycoris|oft)_\w+\.|_lora\."
    r"|\.(?:lora|hada|loha|lokr|oft|boft|vera|ia3|glora)[._]\w"
)
"""What only keys of adapters have, of kinds that this program knows or not."""

OLD_DIFFUSERS = re.compile(
    r"(.+?)\.(?:processor\.)?to_(q|k|v|out)_lora\.(down\.weight|up\.weight|alpha)"
)
"""The attention processors of diffusers before 0.22."""
OLD_KINDS = {"down.weight": DOWN, "up.weight": UP, "alpha": ALPHA}

TEXT_STARTS = ("lora_te", "lycoris_te", "oft_te", "text_encoder", "clip_")


def split(key: str) -> tuple[str, str] | None:
    """Return the layer name and the kind of an adapter key; None for other keys."""
    key = ADAPTER.sub("", key)
    if old := OLD_DIFFUSERS.fullmatch(key):
        return _old_name(old[1], old[2]), OLD_KINDS[old[3]]
    for ending, kind in ENDINGS:
        if key.endswith(ending):
            return key.removesuffix(ending), kind
    return None


def adapter_name(key: str) -> str:
    """Return the name of the adapter in one of peft's keys; "" without."""
    found = ADAPTER.search(key)
    return next(filter(None, found.groups()), "") if found else ""


def is_foreign_key(key: str) -> bool:
    """Return whether a key is an adapter's by what all kinds have in common, even unknown ones."""
    return bool(FOREIGN.search(key))


def is_adapter_key(key: str) -> bool:
    """Return whether a key is certainly an adapter's; "weight" also ends every model's keys."""
    parts = split(key)
    return is_foreign_key(key) or (parts is not None and parts[1] not in ("weight", ALPHA))


def is_magnitude_key(key: str) -> bool:
    """Return whether a key is a DoRA magnitude, which belongs to the merged weights."""
    parts = split(key)
    return parts is not None and parts[1] in (DORA, MAGNITUDE)


def is_text_encoder_key(key: str) -> bool:
    """Return whether a LoRA key belongs to a text encoder rather than the UNet."""
    bare = key.removeprefix(WRAPPED)
    encoders = (encoder for spec in registry.FAMILIES for encoder in spec.encoders)
    return bare.startswith(TEXT_STARTS) or any(encoder_pattern(e).match(bare) for e in encoders)


@cache
def encoder_pattern(encoder: EncoderSpec) -> re.Pattern[str]:
    """Return the pattern of what precedes the layers of a text encoder, in any naming."""
    lora, comfy = ("|".join(map(re.escape, n)) for n in (encoder.lora_names, encoder.comfy_names))
    folder = re.escape(encoder.component.folder)
    return re.compile(rf"(?:^|\.)(?:(?:lora|lycoris|oft)_(?:{lora})_|{folder}\.|(?:{comfy})\.)")


def _old_name(attention: str, projection: str) -> str:
    if attention.endswith("self_attn"):  # of a text encoder
        return f"{attention}.{projection}_proj"
    return f"{attention}.to_{projection}" + (".0" if projection == "out" else "")
