"""What tells a model's prediction type and noise schedule: markers, metadata, scheduler config."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onetrainer.config.run.model import Prediction
from onetrainer.errors import UserError
from onetrainer.tensor_files import TensorTable

V_MARKER, ZERO_SNR_MARKER = "v_pred", "ztsnr"
"""Empty tensors by which inference programs know such models."""

_WORDS: Mapping[str, Prediction] = {
    "epsilon": "epsilon",
    "eps": "epsilon",
    "v": "v_prediction",
    "v_prediction": "v_prediction",
    "v-prediction": "v_prediction",
    "velocity": "v_prediction",
}
# modelspec.prediction_type stands in the specification; ComfyUI writes the other.
_PREDICTION_KEYS = ("modelspec.prediction_type", "modelspec.predict_key")
_ARCHITECTURES: Mapping[str, Prediction] = {
    "stable-diffusion-v2-768-v": "v_prediction",
    "stable-diffusion-v2-512": "epsilon",
}
_BASE_VERSION = "ss_base_model_version"


@dataclass(frozen=True)
class Signs:
    """What was told, None for nothing; told_by: what told the prediction.

    prediction_is_sure, zero_snr_is_sure: whether a person may not overrule it: a marker or a
    scheduler config says so, and does not contradict itself.
    """

    prediction: Prediction | None = None
    told_by: str = ""
    zero_terminal_snr: bool | None = None
    prediction_is_sure: bool = True
    zero_snr_is_sure: bool = True


def signs_of_file(table: TensorTable) -> Signs:
    """The signs in a single file. A marker wins over metadata, which programs copy carelessly."""
    prediction, told_by = _prediction_of_metadata(table.metadata)
    has_v_marker = V_MARKER in table.entries
    if has_v_marker:
        prediction, told_by = "v_prediction", f'the marker "{V_MARKER}"'
    zero_snr: bool | None = None
    match table.metadata.get("ss_zero_terminal_snr"):
        case "True":
            zero_snr = True
        case "False":
            zero_snr = False
    has_zero_marker = ZERO_SNR_MARKER in table.entries
    if has_zero_marker:
        zero_snr = True
    return Signs(prediction, told_by, zero_snr, has_v_marker, has_zero_marker)


def signs_of_scheduler(config: Mapping[str, Any], place: str) -> Signs:
    """The signs in a diffusers scheduler config. Raises UserError for what nobody can use here."""
    word = config.get("prediction_type")
    zero_snr = config.get("rescale_betas_zero_snr")
    prediction = _WORDS.get(str(word))
    if word is not None and prediction is None:
        raise UserError(
            f'{place}: this model predicts "{word}"',
            'Only models that predict "epsilon" or "v_prediction" are known here',
            "Choose another model",
        )
    # Nothing can be predicted from noise alone as noise: one of the two is wrong, whichever it is.
    is_sound = not (prediction == "epsilon" and zero_snr is True)
    return Signs(
        prediction,
        "its scheduler config" if prediction else "",
        zero_snr if isinstance(zero_snr, bool) else None,
        prediction_is_sure=is_sound,
        zero_snr_is_sure=is_sound,
    )


def _prediction_of_metadata(metadata: Mapping[str, str]) -> tuple[Prediction | None, str]:
    """The prediction type and the key that tells it."""
    told: list[tuple[str, Prediction | None]] = [
        *((key, _WORDS.get(metadata.get(key, "").lower())) for key in _PREDICTION_KEYS),
        # An adapter's architecture has a suffix: "stable-diffusion-v2-512/lora".
        (
            "modelspec.architecture",
            _ARCHITECTURES.get(metadata.get("modelspec.architecture", "").partition("/")[0]),
        ),
        (_BASE_VERSION, _of_base_version(metadata.get(_BASE_VERSION, ""))),
    ]
    for key, prediction in told:
        if prediction:
            return prediction, f'its metadata "{key}"'
    return None, ""


def _of_base_version(word: str) -> Prediction | None:
    """By sd-scripts' word for the base: "sd_v2_v" predicts velocity, "sd_v1" may be either."""
    if word.endswith("_v"):
        return "v_prediction"
    return "epsilon" if word == "sd_v2" else None
