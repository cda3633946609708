"""Recognition of a model file from the names and shapes of its tensors, by the families' specs.

Names decide wherever possible, widths only where families differ in nothing else: the demo's small
models have the names of the large ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from onetrainer.families import registry
from onetrainer.families.registry import narrowed
from onetrainer.families.spec import FamilySpec
from onetrainer.model_files.adapter_family import family_by_metadata, family_of_adapter
from onetrainer.model_files.adapter_keys import is_adapter_key
from onetrainer.model_files.embedding_keys import (
    BUNDLE,
    OF_SEVERAL,
    OUTPUT,
    SEVERAL_KEYS,
    bundled,
    is_vectors,
)
from onetrainer.model_files.kinds import Kind
from onetrainer.model_files.prediction_hints import PredictionHints
from onetrainer.tensor_files.entries import TensorEntry, TensorTable

Entries = Mapping[str, TensorEntry]

_UNET = "model.diffusion_model."
_EMA = "model_ema."
# EMA weights have the names of the weights without dots.
_EMA_INPUT_LAYER = _EMA + "diffusion_modelinput_blocks00weight"
_VAE = "first_stage_model."
# Markers of models trained with the EDM noise schedule.
_OTHER_SCHEDULES = ("edm_mean", "edm_vpred.sigma_max")


@dataclass(frozen=True)
class Recognized:
    """The result of recognition; fields as in ModelFile. tables: Of its weight files."""

    kind: Kind
    missing: tuple[str, ...] = ()
    unet_channels: int = 0
    made_for: Kind | None = None
    hints: PredictionHints = field(default_factory=PredictionHints)
    tables: tuple[TensorTable, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()


def recognize(entries: Entries, metadata: Mapping[str, str]) -> Recognized:
    """Recognize a file with these tensors; metadata is used only for `made_for`."""
    is_model = _starts(entries, _UNET, _EMA, *_encoder_prefixes())
    if not is_model and (addition := _recognize_addition(entries, metadata)):
        return addition
    # ComfyUI writes a UNet alone without the first part of the prefix.
    names = {name.removeprefix("model.").removeprefix("diffusion_model.") for name in entries}
    for spec in registry.recognized():
        if spec.marks and all(any(n.startswith(mark) for n in names) for mark in spec.marks):
            missing = _missing(entries, spec) if spec.engine else ()
            return Recognized(spec.name, missing, spec.unet_channels if spec.engine else 0)
    if is_model:
        return _recognize_model(entries)
    for prefix in ("diffusion_model.", ""):
        if _starts(entries, f"{prefix}input_blocks.", f"{prefix}down_blocks."):
            channels = _channels(entries, prefix)
            base = _base_of_unet(entries, prefix)
            return Recognized("unet", (), channels, with_channels(base, channels))
    if _starts(entries, "text_model.", "transformer.resblocks.", "text_projection"):
        return Recognized("text-encoder")
    if _starts(entries, _VAE, "decoder.conv_in.", "encoder.conv_in."):
        return _with_owner(_recognize_vae(entries), metadata)
    return Recognized("unknown")


def with_channels(base: FamilySpec, channels: int) -> Kind:
    """Return the model of a base, or one made from it, by the input channels of the UNet."""
    found = (
        spec.name
        for spec in registry.recognized()
        if base.name in (spec.name, spec.base) and spec.unet_channels == channels
    )
    return next(found, "unknown")


def family_of_vectors(shapes: Mapping[str, Sequence[int]]) -> Kind | None:
    """Return the family of an embedding by its vectors' shapes by key; None if unknown."""
    if keys := {key.removesuffix(OUTPUT) for key in shapes} & OF_SEVERAL:
        encoders = {SEVERAL_KEYS[key] for key in keys}
        return next(s.name for s in registry.FAMILIES if encoders <= set(s.encoder_names))
    widths = {shape[-1] for shape in shapes.values() if shape}
    return _embedding_widths().get(widths.pop()) if len(widths) == 1 else None


def _embedding_widths() -> dict[int, Kind]:
    """Return the families by the width of their only or last text encoder."""
    bases = [spec for spec in registry.recognized_bases() if spec.series]
    return {spec.encoders[-1].width: spec.name for spec in bases}


def _encoder_prefixes() -> set[str]:
    """Return the beginnings of the text encoders' names in single files that have a UNet."""
    return {
        encoder.component.prefix.partition(".")[0] + "."
        for spec in registry.recognized_bases()
        if spec.has_unet
        for encoder in spec.encoders
    }


def _recognize_addition(entries: Entries, metadata: Mapping[str, str]) -> Recognized | None:
    """Recognize what is used with a model: LoRAs, embeddings, and what this program cannot use."""
    if any(is_adapter_key(name) for name in entries if not name.startswith(BUNDLE)):
        shapes = {name: entry.shape for name, entry in entries.items()}
        return Recognized("lora", made_for=family_of_adapter(shapes, metadata))
    if embedding := _recognize_embedding(entries):
        return _with_owner(embedding, metadata)
    if any(name.startswith("controlnet_") or ".motion_modules." in name for name in entries):
        return Recognized("unknown")  # they have a UNet's blocks
    return None


def _recognize_model(entries: Entries) -> Recognized:
    channels = _channels(entries, _UNET)
    has_unet = _starts(entries, _UNET)
    base = _base_by_encoders(entries) or _base_of_unet(entries, _UNET)
    # A file without a UNet counts as one with the usual channels.
    kind = with_channels(base, channels or (0 if has_unet else base.latent_channels))
    has_sizes = _starts(entries, _UNET + "label_emb.")
    if any(name in entries for name in _OTHER_SCHEDULES):
        kind = "unknown"
    elif not _starts(entries, _VAE, *_encoder_prefixes()):
        return Recognized("unet", (), channels, kind)
    elif has_sizes and not base.has_size_conditioning:
        kind = "unknown"  # an unCLIP model
    spec = next((spec for spec in registry.FAMILIES if spec.name == kind), None)
    if spec is None:
        return Recognized(kind, (), channels)
    missing = _missing(entries, spec)
    if {"UNet", "VAE"} <= set(missing) and not _starts(entries, _EMA):
        return Recognized("text-encoder", made_for=kind)
    return Recognized(kind, missing, channels)


def _missing(entries: Entries, spec: FamilySpec) -> tuple[str, ...]:
    """Return the labels of the components that a single file lacks."""
    components = {"UNet": spec.unet, "VAE": spec.vae}
    components |= {encoder.label: encoder.component for encoder in spec.encoders}
    return tuple(
        label for label, component in components.items() if not _starts(entries, component.prefix)
    )


def _base_by_encoders(entries: Entries) -> FamilySpec | None:
    """Return the model by its text encoders; None if there are none."""
    for spec in registry.recognized_bases():
        prefixes = [encoder.component.prefix for encoder in spec.encoders]
        if prefixes and _starts(entries, *prefixes):
            return spec
    return None


def _base_of_unet(entries: Entries, prefix: str) -> FamilySpec:
    """Return the model of a UNet alone, in either naming; the first of those it may be."""
    unet = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
    has_sizes = _starts(unet, f"{prefix}label_emb.", f"{prefix}add_embedding.")
    has_fourth = _starts(unet, f"{prefix}input_blocks.9.", f"{prefix}down_blocks.3.")
    projection = _first(unet, ".proj_in.weight")
    context = _first(unet, ".attn2.to_k.weight")
    specs = [spec for spec in registry.recognized_bases() if spec.has_unet]
    specs = narrowed(specs, lambda spec: spec.has_size_conditioning == has_sizes)
    specs = narrowed(specs, lambda spec: (spec.levels > 3) == has_fourth)
    # Some programs write convolutions for matrices.
    if projection is not None and len(projection.shape) == 2:
        specs = narrowed(specs, lambda spec: not spec.has_convolution_projections)
    if context is not None:
        specs = narrowed(specs, lambda spec: spec.text_width == context.shape[-1])
    return specs[0]


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
    known = {spec.latent_channels for spec in registry.FAMILIES}
    for prefix in (_VAE, ""):
        entry = entries.get(f"{prefix}decoder.conv_in.weight")
        if entry is not None and len(entry.shape) == 4 and entry.shape[1] not in known:
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
            len(rest) < 2 and width in _embedding_widths() and "F" in dtype
        ):
            return Recognized("embedding", made_for=_embedding_widths()[width])
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
