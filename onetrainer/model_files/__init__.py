"""Recognition of model files and folders from their headers."""

from onetrainer.model_files.choices import (
    prediction_change,
    require_family,
    require_made_for,
    require_predictable,
    require_published_size,
    require_vae,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.folders import weight_files
from onetrainer.model_files.inspection import inspect_model, inspect_table
from onetrainer.model_files.kinds import DESCRIPTIONS, NAMES, Kind, Layout, ModelFile

__all__ = [
    "DESCRIPTIONS",
    "NAMES",
    "Kind",
    "Layout",
    "ModelFile",
    "inspect_model",
    "inspect_table",
    "prediction_change",
    "require_family",
    "require_made_for",
    "require_predictable",
    "require_published_size",
    "require_vae",
    "resolve_prediction",
    "resolve_zero_snr",
    "weight_files",
]
