"""Facts about the base model, read from its headers."""

from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.errors import UserError, sentence
from onetrainer.presets.find import expanded
from ui.messages.problems import join_list
from ui.progress.units import format_bytes

if TYPE_CHECKING:
    from onetrainer.model_files.kinds import ModelFile

NOTHING_CHOSEN = (
    "Choose a file or a diffusers folder, drop one on the window, or enter the name of a model on "
    "the Hub."
)


def lines_of(text: str, is_offline: bool) -> list[str]:
    """Describe the model at a path, or a downloaded model by its name on the Hugging Face Hub."""
    # Imported late, because opening the window does not need it.
    from onetrainer.model_files.hub import cached_folder, is_hub_name

    if not is_hub_name(text):
        try:
            return _lines_at(Path(expanded(text)), text)
        except UserError as error:  # "~name" of an unknown user
            return [sentence(error.what)]
    folder = cached_folder(text)
    if folder is not None:
        return ["From the Hugging Face Hub, already downloaded.", *_lines_at(folder, text)]
    if is_offline:
        return [text, "Not on this computer. Turn off “Offline” to download it."]
    return [
        text,
        "Not on this computer. It will be downloaded from the Hugging Face Hub when training "
        "starts.",
    ]


def _lines_at(path: Path, text: str) -> list[str]:
    from onetrainer.model_files.inspection import inspect_model

    try:
        model = inspect_model(path)
    except UserError as error:
        return [sentence(part) for part in (error.what, error.remedy) if part]
    return [Path(text).name, *facts(model)]


def facts(model: "ModelFile") -> list[str]:
    """Describe a model, one line for each known fact."""
    from onetrainer.model_files.kinds import DESCRIPTIONS, NAMES

    lines = [f"This is {DESCRIPTIONS[model.kind]}."]
    if model.made_for is not None and model.made_for in NAMES:
        lines.append(f"Made for {NAMES[model.made_for]}")
    match model.prediction:
        case "epsilon":
            lines.append("Predicts noise (epsilon)")
        case "v_prediction":
            lines.append("Predicts velocity (v-prediction)")
    if model.zero_terminal_snr is not None:
        lines.append(f"Zero terminal SNR: {'yes' if model.zero_terminal_snr else 'no'}")
    if model.precision:
        lines.append(f"Precision: {model.precision}")
    if model.has_ema:
        lines.append("Contains EMA weights")
    if model.missing:
        lines.append(f"Missing: {join_list(model.missing)}")
    if model.layout == "single-file":
        lines.append(f"Single file, {format_bytes(model.path.stat().st_size)}")
    else:
        lines.append("Diffusers folder")
    return lines
