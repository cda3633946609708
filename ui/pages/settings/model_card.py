"""What the base model is, in words: read from its headers, in a thread."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.errors import UserError, sentence
from onetrainer.presets.presets import expanded
from ui.context import Context
from ui.messages.problems import listed
from ui.progress.run_state import amount

if TYPE_CHECKING:
    from onetrainer.model_files import ModelFile

Seen = tuple[str, bool]


class ModelLines:
    """The lines of the card; looks again when another model is named."""

    def __init__(self, context: Context, show: Callable[[], None]) -> None:
        self._context = context
        self._show = show
        self._seen: Seen | None = None
        self._found: list[str] = []

    def lines(self) -> list[str]:
        """What is known; looks if the model is another one than before."""
        draft = self._context.draft
        value = draft.value("model.path")
        path = value if isinstance(value, str) else ""
        seen = (path, draft.value("model.offline") is True)
        if seen != self._seen:
            self._seen = seen
            self._found = ["Looking …" if path else _NOTHING_CHOSEN]
            if path:
                self._context.kit.jobs.run(
                    lambda: lines_of(path, is_offline=seen[1]),
                    lambda lines: self._looked(seen, lines),
                )
        return self._found

    def _looked(self, seen: Seen, lines: list[str]) -> None:
        if seen == self._seen:
            self._found = lines
            self._show()


_NOTHING_CHOSEN = "Choose a file or a diffusers folder, or type the name of a model on the hub."


def lines_of(text: str, *, is_offline: bool) -> list[str]:
    """What is at a path, or behind a name on the hub as far as it has been downloaded."""
    # Loaded late: they look into files, which a window that only opens does not need.
    from onetrainer.model_files.hub import cached_folder, is_hub_name

    if not is_hub_name(text):
        try:
            return _lines_at(Path(expanded(text)), text)
        except UserError as error:  # the home of somebody who is not there
            return [sentence(error.what)]
    folder = cached_folder(text)
    if folder is not None:
        return ["A model on the Hugging Face Hub, downloaded before.", *_lines_at(folder, text)]
    taken = "Not a folder here; taken for a model on the Hugging Face Hub"
    if is_offline:
        return [text, f"{taken}. It has not been downloaded, and the network is not to be used."]
    return [text, f"{taken}, and downloaded when training starts."]


def _lines_at(path: Path, text: str) -> list[str]:
    from onetrainer.model_files import inspect_model

    try:
        model = inspect_model(path)
    except UserError as error:
        return [sentence(part) for part in (error.what, error.remedy) if part]
    return [Path(text).name, *facts(model)]


def facts(model: "ModelFile") -> list[str]:
    """What a model is, a line for each thing that is known of it."""
    from onetrainer.model_files import DESCRIPTIONS, NAMES

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
        lines.append("Also holds averaged weights (EMA)")
    if model.missing:
        lines.append(f"⚠ Without {listed(model.missing)}")
    if model.layout == "single-file":
        lines.append(f"One file of {amount(model.path.stat().st_size)}")
    else:
        lines.append("A diffusers folder")
    return lines
