"""Looks at a path and tells what model is there; only headers are read, never weights."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import is_of_lengths
from onetrainer.model_files.folders import folder_at
from onetrainer.model_files.kinds import FAMILIES, ModelFile
from onetrainer.model_files.signs import signs_of_file
from onetrainer.model_files.sizes import is_unusual_size
from onetrainer.model_files.tensors import recognize
from onetrainer.tensor_files import TensorEntry, TensorTable, read_table

_PRECISIONS: Mapping[str, str] = {
    "F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8",
    "F8_E5M2": "fp8",
}  # fmt: skip
# Buffers and norms of another precision are no reason to call a file mixed.
_NEARLY_ALL = 0.99
# The weights themselves: files without them still have the average's counters.
_AVERAGES = "model_ema.diffusion_model"


def inspect_model(path: Path) -> ModelFile:
    """What a model is; raises UserError if it cannot be read or a folder is not complete."""
    try:
        if path.is_dir():
            return _inspect_folder(path)
        if not path.is_file():
            raise UserError(
                f"{path}: there is no such file or folder",
                "A diffusers folder, a .safetensors or a .ckpt file was expected",
                "Check the path",
            )
        return inspect_table(read_table(path))
    except OSError as error:
        raise UserError(
            f"{path}: the model cannot be read ({error.strerror})",
            remedy="Check the path and the rights to read it",
        ) from error


def inspect_table(table: TensorTable) -> ModelFile:
    """What a single file is, from its header."""
    found = recognize(table.entries, table.metadata)
    signs = signs_of_file(table)
    family = next((name for name in FAMILIES if name == found.kind), None)
    return ModelFile(
        table.path,
        "single-file",
        found.kind,
        missing=found.missing,
        prediction=signs.prediction,
        zero_terminal_snr=signs.zero_terminal_snr,
        # DoRA's lengths are float32 beside matrices of any precision.
        precision=precision_of(
            entry for name, entry in table.entries.items() if not is_of_lengths(name)
        ),
        has_ema=any(name.startswith(_AVERAGES) for name in table.entries),
        unet_channels=found.unet_channels,
        made_for=found.made_for,
        told_by=signs.told_by,
        prediction_is_sure=signs.prediction_is_sure,
        zero_snr_is_sure=signs.zero_snr_is_sure,
        has_unusual_size=family is not None and is_unusual_size(table.entries, family),
    )


def precision_of(entries: Iterable[TensorEntry]) -> str:
    """The type of nearly all numbers with fractions: "fp16"; "mixed" of several, "" of none."""
    counts: Counter[str] = Counter()
    for entry in entries:
        if entry.dtype in _PRECISIONS:
            counts[_PRECISIONS[entry.dtype]] += entry.count
    if not counts.total():
        return ""
    (name, most), *_ = counts.most_common(1)
    return name if most >= _NEARLY_ALL * counts.total() else "mixed"


def _inspect_folder(path: Path) -> ModelFile:
    folder = folder_at(path)
    return ModelFile(
        path,
        "folder",
        folder.kind,
        missing=folder.missing,
        prediction=folder.signs.prediction,
        zero_terminal_snr=folder.signs.zero_terminal_snr,
        precision=precision_of(
            entry for table in folder.tables for entry in table.entries.values()
        ),
        unet_channels=folder.unet_channels,
        made_for=folder.made_for,
        told_by=folder.signs.told_by,
        prediction_is_sure=folder.signs.prediction_is_sure,
        zero_snr_is_sure=folder.signs.zero_snr_is_sure,
    )
