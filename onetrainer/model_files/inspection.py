"""Inspection of model files and folders; only headers are read, never weights."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES, FAMILY_LABELS, family_spec
from onetrainer.model_files.adapter_keys import is_magnitude_key
from onetrainer.model_files.folders import folder_at
from onetrainer.model_files.kinds import Layout, ModelFile
from onetrainer.model_files.prediction_hints import hints_in_file
from onetrainer.model_files.sizes import is_unusual_size, is_unusual_vae, stored_configs
from onetrainer.model_files.tensors import Recognized, recognize
from onetrainer.model_files.wholeness import VAE, Problems, labels_of, problems_in_file
from onetrainer.tensor_files.entries import TensorEntry, TensorTable
from onetrainer.tensor_files.table import read_table

_PRECISIONS: Mapping[str, str] = {
    "F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8",
    "F8_E5M2": "fp8",
}  # fmt: skip
# Buffers and norms of another precision do not make a file mixed.
_NEARLY_ALL = 0.99
# EMA weights; files without them may still have EMA counters.
_EMA_PREFIX = "model_ema.diffusion_model"


def inspect_model(path: Path) -> ModelFile:
    """Recognize a model. Raises UserError if it cannot be read or a folder is incomplete."""
    try:
        if path.is_dir():
            return _described(path, "folder", folder_at(path))
        if not path.is_file():
            raise UserError(
                f"{path}: no such file or folder",
                "Expected a diffusers folder, a .safetensors or a .ckpt file",
                "Check the path",
                failure="file missing",
            )
        return inspect_table(read_table(path))
    except OSError as error:
        raise UserError(
            f"{path}: the model cannot be read ({error.strerror})",
            remedy="Check the path and its permissions",
        ) from error


def inspect_table(table: TensorTable) -> ModelFile:
    """Recognize a single file from its header."""
    found = recognize(table.entries, table.metadata)
    found = replace(found, hints=hints_in_file(table), tables=(table,))
    return _described(table.path, "single-file", found)


def _described(path: Path, layout: Layout, found: Recognized) -> ModelFile:
    is_model, stored = found.kind in FAMILY_LABELS, ""
    if is_model and layout == "single-file":
        stored = stored_configs(found.tables[0].metadata, found.kind)
    entries = [pair for table in found.tables for pair in table.entries.items()]
    has_unusual_size = is_model and not stored and is_unusual_size(dict(entries), found.kind)
    return ModelFile(
        path,
        layout,
        found.kind,
        missing=found.missing,
        prediction=found.hints.prediction,
        zero_terminal_snr=found.hints.zero_terminal_snr,
        # DoRA's magnitudes are float32 for matrices of any precision.
        precision=precision_of(entry for name, entry in entries if not is_magnitude_key(name)),
        has_ema=any(name.startswith(_EMA_PREFIX) for name, _ in entries),
        unet_channels=found.unet_channels,
        made_for=found.made_for,
        prediction_source=found.hints.prediction_source,
        zero_snr_is_sure=found.hints.zero_snr_is_sure,
        has_unusual_size=has_unusual_size,
        stored_configs=stored,
        problems=found.problems
        if layout == "folder"
        else _problems(found, is_other_size=has_unusual_size or bool(stored)),
    )


def _problems(found: Recognized, *, is_other_size: bool) -> Problems:
    """Return what is wrong with a single file."""
    (table,) = found.tables
    if found.kind == "vae":
        spec = family_spec(found.made_for or FAMILIES[0].name)
        without = [label for label in labels_of(spec) if label != VAE]
    elif found.kind in FAMILY_LABELS:
        spec, without = family_spec(found.kind), list(found.missing)
    else:
        return ()
    is_other_size = is_other_size or is_unusual_vae(table.entries, spec.name)
    return problems_in_file(table, spec, without=without, is_other_size=is_other_size)


def precision_of(entries: Iterable[TensorEntry]) -> str:
    """Return the type of nearly all float values: "fp16"; "mixed" for several, "" for none."""
    counts: Counter[str] = Counter()
    for entry in entries:
        if entry.dtype in _PRECISIONS:
            counts[_PRECISIONS[entry.dtype]] += entry.count
    if not counts.total():
        return ""
    (name, most), *_ = counts.most_common(1)
    return name if most >= _NEARLY_ALL * counts.total() else "mixed"
