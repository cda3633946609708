"""What the names and shapes of a file's tensors make it.

Names decide wherever they can, widths only where the families differ in nothing else: the demo's
small models have the names of the large ones.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from onetrainer.model_files.kinds import FAMILIES, Kind
from onetrainer.tensor_files import TensorEntry

Entries = Mapping[str, TensorEntry]

_CONTEXT_WIDTHS: Mapping[int, Kind] = {
    768: "sd15",
    1024: "sd2",
    2048: "sdxl",
    1280: "sdxl-refiner",
}
"""How wide the text is that each family's UNet reads."""
# The text encoders of each family in a single file, and what a person calls them.
_ENCODERS: Mapping[str, Mapping[str, str]] = {
    "sd15": {"cond_stage_model.transformer.": "text encoder"},
    "sd2": {"cond_stage_model.model.": "text encoder"},
    "sdxl": {
        "conditioner.embedders.0.": "text encoder",
        "conditioner.embedders.1.": "second text encoder",
    },
}
_INPAINTING: Mapping[Kind, Kind] = {
    "sd15": "sd15-inpainting",
    "sd2": "sd2-inpainting",
    "sdxl": "sdxl-inpainting",
}
_UNET = "model.diffusion_model."
_EMA = "model_ema."
_VAE = "first_stage_model."
# Models trained with another noise schedule altogether (EDM), which their files tell thus.
_OTHER_SCHEDULES = ("edm_mean", "edm_vpred.sigma_max")
_ADAPTER = re.compile(
    r"^lora_|^lycoris_|^oft_unet_|\.lora[._]|_lora\.|\.hada_w\d|\.lokr_w\d|\.oft_(?:blocks|R|diag)|^bundle_emb\."
)
# Only SDXL has two text encoders, or several transformer blocks in one place.
_SDXL_ADAPTER = re.compile(r"^lora_te[12]_|text_encoder_2\.|clip_g\.|transformer_blocks[._][1-9]")
_CROSS_ATTENTION = re.compile(r"attn2[._](?:to_k|processor\.to_k_lora)\.")
_TEXT_LAYER = re.compile(r"(?:lora_te_|text_encoder\.|clip_[lh]\.).*mlp[._]fc1\.")
_EMBEDDINGS = {"emb_params", "emp_params", "emp_params_out", "clip_l", "clip_g", "clip_h"}
_EMBEDDING_WIDTHS: Mapping[int, Kind] = {768: "sd15", 1024: "sd2", 1280: "sdxl"}
_LATENT_CHANNELS = 4


@dataclass(frozen=True)
class Found:
    """What a file's tensors make it; the words are those of ModelFile."""

    kind: Kind
    missing: tuple[str, ...] = ()
    unet_channels: int = 0
    made_for: Kind | None = None


def recognize(entries: Entries) -> Found:
    """What a file with these tensors is."""
    if _starts(entries, _UNET, _EMA, "cond_stage_model.", "conditioner."):
        return _recognize_whole(entries)
    if any(_ADAPTER.search(name) for name in entries):
        return Found("lora", made_for=_family_of_adapter(entries))
    if embedding := _recognize_embedding(entries):
        return embedding
    if any(name.startswith("controlnet_") or ".motion_modules." in name for name in entries):
        return Found("unknown")  # they have a UNet's blocks, but add to another one
    # ComfyUI writes a UNet alone with this prefix; LoRAs with it have been told already.
    for prefix in ("diffusion_model.", ""):
        if _starts(entries, f"{prefix}joint_blocks.", f"{prefix}double_blocks."):
            return Found("flux" if _starts(entries, f"{prefix}double_blocks.") else "sd3")
        if _starts(entries, f"{prefix}input_blocks.", f"{prefix}down_blocks."):
            channels = _channels(entries, prefix)
            return Found(
                "unet", (), channels, with_channels(_base_of_unet(entries, prefix), channels)
            )
    if _starts(entries, "text_model.", "transformer.resblocks.", "text_projection"):
        return Found("text-encoder")
    if _starts(entries, _VAE, "decoder.conv_in.", "encoder.conv_in."):
        return _recognize_vae(entries)
    return Found("unknown")


def with_channels(base: Kind, channels: int) -> Kind:
    """The kind of a UNet that reads so many channels: 4 of the picture, 5 more to inpaint."""
    match base, channels:
        case "sd2", 5:
            return "sd2-depth"
        case _, 4:
            return base
        case _, 9:
            return _INPAINTING.get(base, "unknown")
        case _:
            return "unknown"


def is_embedding(name: str) -> bool:
    """Whether a tensor of this name is an embedding's vectors, in any spelling but diffusers'."""
    return name.removesuffix("_out") in _EMBEDDINGS or name.startswith("string_to_param.")


def _recognize_whole(entries: Entries) -> Found:
    if _starts(entries, _UNET + "joint_blocks."):
        return Found("sd3")
    if _starts(entries, _UNET + "double_blocks."):
        return Found("flux")
    channels = _channels(entries, _UNET)
    has_unet = _starts(entries, _UNET)
    base = _base_by_encoders(entries) or _base_of_unet(entries, _UNET)
    # Averaged weights alone: their names have lost the dots, so their shapes are not looked up.
    kind = with_channels(base, channels if has_unet else 4)
    if any(name in entries for name in _OTHER_SCHEDULES):
        return Found("unknown", (), channels)
    if not _starts(entries, _VAE, "cond_stage_model.", "conditioner."):
        return Found("unet", (), channels, kind)
    if kind not in FAMILIES:
        return Found(kind, (), channels)
    parts = {_UNET: "UNet", _VAE: "VAE", **_ENCODERS[base]}
    missing = tuple(word for prefix, word in parts.items() if not _starts(entries, prefix))
    if {"UNet", "VAE"} <= set(missing) and not _starts(entries, _EMA):
        return Found("text-encoder", made_for=kind)
    return Found(kind, missing, channels)


def _base_by_encoders(entries: Entries) -> Kind | None:
    """The family by its text encoders; None if there are none."""
    has_label = _starts(entries, _UNET + "label_emb.")
    if _starts(entries, "conditioner.embedders.1."):
        return "sdxl"
    if _starts(entries, "conditioner.embedders.0.model."):
        return "sdxl-refiner"
    if _starts(entries, "conditioner."):
        return "sdxl"
    if _starts(entries, "cond_stage_model.model."):
        return "unknown" if has_label else "sd2"  # with labels: it reads pictures (unCLIP)
    if _starts(entries, "cond_stage_model.transformer."):
        return "sd15"
    return None


def _base_of_unet(entries: Entries, prefix: str) -> Kind:
    """The family by a UNet alone, in either spelling."""
    if _starts(entries, f"{prefix}label_emb.", f"{prefix}add_embedding."):
        # The refiner has one level more than the base.
        is_deep = _starts(entries, f"{prefix}input_blocks.9.", f"{prefix}down_blocks.3.")
        return "sdxl-refiner" if is_deep else "sdxl"
    unet = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
    entrance = _first(unet, ".proj_in.weight")
    context = _first(unet, ".attn2.to_k.weight")
    # SD 2 enters its transformers by a matrix, SD 1.x by a convolution; some programs write a
    # convolution for both.
    if entrance is not None and len(entrance.shape) == 2:
        return "sd2"
    if context is not None and _CONTEXT_WIDTHS.get(context.shape[-1]) == "sd2":
        return "sd2"
    return "sd15"


def _channels(entries: Entries, prefix: str) -> int:
    """How many channels a UNet reads; 0 if that cannot be told."""
    for name in ("input_blocks.0.0.weight", "conv_in.weight"):
        entry = entries.get(prefix + name)
        if entry is not None and len(entry.shape) == 4:
            return entry.shape[1]
    return 0


def _recognize_vae(entries: Entries) -> Found:
    """A VAE alone, unless it is that of another kind of model."""
    for prefix in (_VAE, ""):
        entry = entries.get(f"{prefix}decoder.conv_in.weight")
        if entry is not None and len(entry.shape) == 4 and entry.shape[1] != _LATENT_CHANNELS:
            return Found("unknown")
    return Found("vae")


def _recognize_embedding(entries: Entries) -> Found | None:
    """An embedding in any spelling; None if it is none."""
    vectors = {name: entry for name, entry in entries.items() if is_embedding(name)}
    if vectors:
        if "clip_g" in vectors:
            return Found("embedding", made_for="sdxl")
        widths = [entry.shape[-1] for entry in vectors.values() if entry.shape]
        return Found("embedding", made_for=_EMBEDDING_WIDTHS.get(widths[0]) if widths else None)
    # diffusers names an embedding's only tensor by its token.
    match list(entries.values()):
        case [TensorEntry(shape=(*rest, width), dtype=dtype)] if (
            len(rest) < 2 and width in _EMBEDDING_WIDTHS and "F" in dtype
        ):
            return Found("embedding", made_for=_EMBEDDING_WIDTHS[width])
    return None


def _family_of_adapter(entries: Entries) -> Kind | None:
    """What a LoRA was made for; None if neither names nor widths tell."""
    if any(_SDXL_ADAPTER.search(name) for name in entries):
        return "sdxl"
    for name, entry in entries.items():
        is_down = re.search(r"lora[._](?:down|A)\b|_lora\.down|\.hada_w1_b$", name)
        if is_down and len(entry.shape) >= 2 and _CROSS_ATTENTION.search(name):
            return _CONTEXT_WIDTHS.get(entry.shape[1])
        if is_down and len(entry.shape) == 2 and _TEXT_LAYER.search(name):
            return _EMBEDDING_WIDTHS.get(entry.shape[1])
    return None


def _first(entries: Entries, end: str) -> TensorEntry | None:
    return next((entry for name, entry in entries.items() if name.endswith(end)), None)


def _starts(entries: Entries, *prefixes: str) -> bool:
    return any(name.startswith(prefixes) for name in entries)
