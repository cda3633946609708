"""Prediction type and noise schedule of a model from markers, metadata and scheduler config."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onetrainer.errors import UserError
from onetrainer.families.spec import Prediction
from onetrainer.tensor_files.entries import TensorTable

V_MARKER, ZERO_SNR_MARKER = "v_pred", "ztsnr"
"""Empty tensors by which inference programs recognize such models."""

_PREDICTION_NAMES: Mapping[str, Prediction] = {
    "epsilon": "epsilon",
    "eps": "epsilon",
    "v": "v_prediction",
    "v_prediction": "v_prediction",
    "v-prediction": "v_prediction",
    "velocity": "v_prediction",
}
# modelspec.prediction_type is the specified key; ComfyUI writes the other.
_PREDICTION_KEYS = ("modelspec.prediction_type", "modelspec.predict_key")
_ARCHITECTURES: Mapping[str, Prediction] = {
    "stable-diffusion-v2-768-v": "v_prediction",
    "stable-diffusion-v2-512": "epsilon",
}
_BASE_VERSION = "ss_base_model_version"


@dataclass(frozen=True)
class PredictionHints:
    """What a model states about its prediction, None if nothing; prediction_source: where.

    zero_snr_is_sure: Whether the user may not overrule it: a marker or a scheduler config states
    it without contradiction.
    """

    prediction: Prediction | None = None
    prediction_source: str = ""
    zero_terminal_snr: bool | None = None
    zero_snr_is_sure: bool = True


def hints_in_file(table: TensorTable) -> PredictionHints:
    """Return the hints in a single file. A marker wins over carelessly copied metadata."""
    prediction, prediction_source = _prediction_of_metadata(table.metadata)
    if V_MARKER in table.entries:
        prediction, prediction_source = "v_prediction", f'the marker "{V_MARKER}"'
    zero_snr: bool | None = None
    match table.metadata.get("ss_zero_terminal_snr"):
        case "True":
            zero_snr = True
        case "False":
            zero_snr = False
    has_zero_marker = ZERO_SNR_MARKER in table.entries
    if has_zero_marker:
        zero_snr = True
    return PredictionHints(prediction, prediction_source, zero_snr, has_zero_marker)


def hints_in_scheduler(config: Mapping[str, Any], place: str) -> PredictionHints:
    """Return the hints in a diffusers scheduler config. Raises UserError for unsupported values."""
    stated = config.get("prediction_type")
    zero_snr = config.get("rescale_betas_zero_snr")
    prediction = _PREDICTION_NAMES.get(str(stated))
    if stated is not None and prediction is None:
        raise UserError(
            f'{place}: this model predicts "{stated}"',
            'Expected a model that predicts "epsilon" or "v_prediction"',
            "Choose another model",
        )
    # Noise cannot be predicted from pure noise: one of the two values is wrong.
    is_sound = not (prediction == "epsilon" and zero_snr is True)
    return PredictionHints(
        prediction,
        "its scheduler config" if prediction else "",
        zero_snr if isinstance(zero_snr, bool) else None,
        zero_snr_is_sure=is_sound,
    )


def _prediction_of_metadata(metadata: Mapping[str, str]) -> tuple[Prediction | None, str]:
    """Return the prediction type and its source in the metadata."""
    candidates: list[tuple[str, Prediction | None]] = [
        *((key, _PREDICTION_NAMES.get(metadata.get(key, "").lower())) for key in _PREDICTION_KEYS),
        # An adapter's architecture has a suffix: "stable-diffusion-v2-512/lora".
        (
            "modelspec.architecture",
            _ARCHITECTURES.get(metadata.get("modelspec.architecture", "").partition("/")[0]),
        ),
        (_BASE_VERSION, _of_base_version(metadata.get(_BASE_VERSION, ""))),
    ]
    for key, prediction in candidates:
        if prediction:
            return prediction, f'its metadata "{key}"'
    return None, ""


def _of_base_version(version: str) -> Prediction | None:
    """Return the prediction of sd-scripts' base version; that of "sd_v1" is unknown."""
    if version.endswith("_v"):
        return "v_prediction"
    return "epsilon" if version == "sd_v2" else None
