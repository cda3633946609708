"""Recognition of a model file from the names and shapes of its tensors.

Names decide wherever possible, widths only where families differ in nothing else: the demo's small
models have the names of the large ones.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onetrainer.families import registry
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.model_files.adapter_family import family_by_metadata, family_of_adapter
from onetrainer.model_files.embedding_keys import BUNDLE, OUTPUT, bundled, is_vectors
from onetrainer.model_files.kinds import CONTEXT_WIDTHS, Kind
from onetrainer.tensor_files import TensorEntry

Entries = Mapping[str, TensorEntry]

# The text encoders of each family in a single file, with labels.
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
# EMA weights have the names of the weights without dots.
_EMA_INPUT_LAYER = _EMA + "diffusion_modelinput_blocks00weight"
_VAE = "first_stage_model."
# Markers of models trained with the EDM noise schedule.
_OTHER_SCHEDULES = ("edm_mean", "edm_vpred.sigma_max")
_ADAPTER = re.compile(
    r"^lora_|^lycoris_|^oft_unet_|\.lora[._]|_lora\.|\.hada_w\d|\.lokr_w\d|\.oft_(?:blocks|R|diag)"
)
_EMBEDDING_WIDTHS: Mapping[int, Kind] = {768: "sd15", 1024: "sd2", 1280: "sdxl"}
_LATENT_CHANNELS = 4


@dataclass(frozen=True)
class Recognized:
    """The result of recognition; fields as in ModelFile."""

    kind: Kind
    missing: tuple[str, ...] = ()
    unet_channels: int = 0
    made_for: Kind | None = None


def recognize(entries: Entries, metadata: Mapping[str, str]) -> Recognized:
    """Recognize a file with these tensors; metadata is used only for `made_for`."""
    for spec in registry.FAMILIES:
        if spec.marks and all(_starts(entries, mark) for mark in spec.marks):
            return Recognized(spec.name, (), spec.unet_channels)
    if _starts(entries, _UNET, _EMA, "cond_stage_model.", "conditioner."):
        return _recognize_whole(entries)
    if any(_ADAPTER.search(name) for name in entries if not name.startswith(BUNDLE)):
        shapes = {name: entry.shape for name, entry in entries.items()}
        return Recognized("lora", made_for=family_of_adapter(shapes, metadata))
    if embedding := _recognize_embedding(entries):
        return _with_owner(embedding, metadata)
    if any(name.startswith("controlnet_") or ".motion_modules." in name for name in entries):
        return Recognized("unknown")  # additions with a UNet's blocks
    # ComfyUI writes a UNet alone with this prefix; LoRAs with it are recognized above.
    for prefix in ("diffusion_model.", ""):
        if _starts(entries, f"{prefix}joint_blocks.", f"{prefix}double_blocks."):
            return Recognized("flux" if _starts(entries, f"{prefix}double_blocks.") else "sd3")
        if _starts(entries, f"{prefix}input_blocks.", f"{prefix}down_blocks."):
            channels = _channels(entries, prefix)
            return Recognized(
                "unet", (), channels, with_channels(_base_of_unet(entries, prefix), channels)
            )
    if _starts(entries, "text_model.", "transformer.resblocks.", "text_projection"):
        return Recognized("text-encoder")
    if _starts(entries, _VAE, "decoder.conv_in.", "encoder.conv_in."):
        return _with_owner(_recognize_vae(entries), metadata)
    return Recognized("unknown")


def with_channels(base: Kind, channels: int) -> Kind:
    """Return the kind of a UNet by its input channels: 4 latent channels, 5 more for inpainting."""
    match base, channels:
        case "sd2", 5:
            return "sd2-depth"
        case _, 4:
            return base
        case _, 9:
            return _INPAINTING.get(base, "unknown")
        case _:
            return "unknown"


def family_of_vectors(shapes: Mapping[str, Sequence[int]]) -> Kind | None:
    """Return the family of an embedding by its vectors' shapes by key; None if unknown."""
    if any(key.removesuffix(OUTPUT) == "clip_g" for key in shapes):
        return "sdxl"
    widths = {shape[-1] for shape in shapes.values() if shape}
    return _EMBEDDING_WIDTHS.get(widths.pop()) if len(widths) == 1 else None


def _recognize_whole(entries: Entries) -> Recognized:
    if _starts(entries, _UNET + "joint_blocks."):
        return Recognized("sd3")
    if _starts(entries, _UNET + "double_blocks."):
        return Recognized("flux")
    channels = _channels(entries, _UNET)
    has_unet = _starts(entries, _UNET)
    base = _base_by_encoders(entries) or _base_of_unet(entries, _UNET)
    # A file without a UNet counts as one with the usual channels.
    kind = with_channels(base, channels or (0 if has_unet else _LATENT_CHANNELS))
    if any(name in entries for name in _OTHER_SCHEDULES):
        return Recognized("unknown", (), channels)
    if not _starts(entries, _VAE, "cond_stage_model.", "conditioner."):
        return Recognized("unet", (), channels, kind)
    if kind not in FAMILY_LABELS:
        return Recognized(kind, (), channels)
    components = {_UNET: "UNet", _VAE: "VAE", **_ENCODERS[base]}
    missing = tuple(label for prefix, label in components.items() if not _starts(entries, prefix))
    if {"UNet", "VAE"} <= set(missing) and not _starts(entries, _EMA):
        return Recognized("text-encoder", made_for=kind)
    return Recognized(kind, missing, channels)


def _base_by_encoders(entries: Entries) -> Kind | None:
    """Return the family by its text encoders; None if there are none."""
    has_label = _starts(entries, _UNET + "label_emb.")
    if _starts(entries, "conditioner.embedders.1."):
        return "sdxl"
    if _starts(entries, "conditioner.embedders.0.model."):
        return "sdxl-refiner"
    if _starts(entries, "conditioner."):
        return "sdxl"
    if _starts(entries, "cond_stage_model.model."):
        return "unknown" if has_label else "sd2"  # with labels it is an unCLIP model
    if _starts(entries, "cond_stage_model.transformer."):
        return "sd15"
    return None


def _base_of_unet(entries: Entries, prefix: str) -> Kind:
    """Return the family of a UNet alone, in either naming."""
    if _starts(entries, f"{prefix}label_emb.", f"{prefix}add_embedding."):
        # The refiner has one level more than the base.
        is_deep = _starts(entries, f"{prefix}input_blocks.9.", f"{prefix}down_blocks.3.")
        return "sdxl-refiner" if is_deep else "sdxl"
    unet = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
    projection = _first(unet, ".proj_in.weight")
    context = _first(unet, ".attn2.to_k.weight")
    # proj_in is a matrix in SD 2 and a convolution in SD 1.x; some programs write a
    # convolution for both.
    if projection is not None and len(projection.shape) == 2:
        return "sd2"
    if context is not None and CONTEXT_WIDTHS.get(context.shape[-1]) == "sd2":
        return "sd2"
    return "sd15"


def _channels(entries: Entries, prefix: str) -> int:
    """Return the input channels of a UNet; 0 if unknown."""
    names = [prefix + "input_blocks.0.0.weight", prefix + "conv_in.weight"]
    for name in [*names, _EMA_INPUT_LAYER] if prefix == _UNET else names:
        entry = entries.get(name)
        if entry is not None and len(entry.shape) == 4:
            return entry.shape[1]
    return 0


def _with_owner(recognized: Recognized, metadata: Mapping[str, str]) -> Recognized:
    """Add `made_for` from the metadata if the shapes do not show it."""
    is_final = recognized.kind == "unknown" or recognized.made_for is not None
    return recognized if is_final else replace(recognized, made_for=family_by_metadata(metadata))


def _recognize_vae(entries: Entries) -> Recognized:
    """Recognize a VAE alone by its latent channels."""
    for prefix in (_VAE, ""):
        entry = entries.get(f"{prefix}decoder.conv_in.weight")
        if entry is not None and len(entry.shape) == 4 and entry.shape[1] != _LATENT_CHANNELS:
            return Recognized("unknown")
    return Recognized("vae")


def _recognize_embedding(entries: Entries) -> Recognized | None:
    """Recognize an embedding in any naming; None if it is none."""
    vectors = {name: entry.shape for name, entry in entries.items() if is_vectors(name)}
    if vectors:
        return Recognized("embedding", made_for=family_of_vectors(vectors))
    if any(name.startswith(BUNDLE) for name in entries):
        return Recognized("embedding", made_for=_family_of_bundle(entries))
    # diffusers names an embedding's only tensor by its token.
    match list(entries.values()):
        case [TensorEntry(shape=(*rest, width), dtype=dtype)] if (
            len(rest) < 2 and width in _EMBEDDING_WIDTHS and "F" in dtype
        ):
            return Recognized("embedding", made_for=_EMBEDDING_WIDTHS[width])
    return None


def _family_of_bundle(entries: Entries) -> Kind | None:
    """Return the family of all embeddings in a file; None if they differ or are unknown."""
    shapes_of: dict[str, dict[str, Sequence[int]]] = {}
    for name, entry in entries.items():
        if member := bundled(name):
            shapes_of.setdefault(member[0], {})[member[1]] = entry.shape
    families = {family_of_vectors(shapes) for shapes in shapes_of.values()}
    return families.pop() if len(families) == 1 else None


def _first(entries: Entries, suffix: str) -> TensorEntry | None:
    return next((entry for name, entry in entries.items() if name.endswith(suffix)), None)


def _starts(entries: Entries, *prefixes: str) -> bool:
    return any(name.startswith(prefixes) for name in entries)
