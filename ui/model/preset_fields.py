"""Settings that belong to the user, to the base model, and to files on disk."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from onetrainer.config.complete import completed
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem
from onetrainer.json_file import Document
from onetrainer.presets import presets
from onetrainer.presets.find import BUILT_IN, Preset
from ui.model.preset_origin import PresetOrigin, run_folder_of, without_demo_value
from ui.model.variants import (
    all_settings,
    defaults_in,
    entries_of,
    settings_by_path,
    variants_in,
)

# Settings that belong to the base model.
_BASE_MODEL_SETTINGS = ("model.path", "model.vae", "model.prediction", "model.zero_terminal_snr")
# Sections about the user's own files rather than the training; built-in presets keep their values.
_USER_SECTIONS = ("model.", "data.", "sampling.", "validation.", "output.")
_IMAGE_SETTINGS = (
    "data.include_subfolders",
    "data.caption_source",
    "data.caption_text",
    "data.trigger",
    "data.class_text",
)
# Lists in these sections that belong to the training nevertheless.
_TRAINING_LISTS = ("data.buckets.",)
_PROMPTS, _RESOLUTION = "sampling.prompts", "data.resolution"


@cache
def user_settings() -> tuple[str, ...]:
    """Return the paths of the settings that built-in presets leave to the user."""
    named = (*_BASE_MODEL_SETTINGS, *_IMAGE_SETTINGS, "model.offline", "output.name")
    return tuple(
        setting.path
        for setting in all_settings()
        if (
            (setting.ui.is_path or setting.kind == "list")
            and setting.path.startswith(_USER_SECTIONS)
            and not setting.path.startswith(_TRAINING_LISTS)
        )
        or setting.path in named
        or setting.path.startswith("metadata.")
    )


@cache
def checked_settings() -> tuple[str, ...]:
    """Return the paths of the settings that the check of files depends on."""
    # Evaluation prompts are compared with a prompt file.
    sections = ("model.", "data.", "objective.prompts.", "objective.evaluation.")
    return tuple(
        setting.path
        for setting in all_settings()
        if setting.ui.is_path
        or any(part.ui.is_path for part in entries_of(setting))
        or setting.path == "method.kind"
        or setting.path.startswith(sections)
    )


def is_built_in(path: Path) -> bool:
    """Return whether a config file is a built-in preset."""
    return path.resolve().is_relative_to(BUILT_IN)


def open_config(
    path: Path,
    preset: Preset | None,
    value: Callable[[str], object],
    *,
    is_checked: bool = True,
) -> tuple[Document, PresetOrigin]:
    """Return the document that a config file stands for, and where it is from.

    A built-in preset leaves some settings to the user. Any other file must train the same here as
    on the command line, so what it omits gets its default.

    Args:
        path: The file.
        preset: The preset that the file is, for its name.
        value: Returns the user's value at a path.
        is_checked: Whether to check the file's values, which takes a while the first time.

    Raises:
        UserError: If the file cannot be read, or holds invalid values and these are checked.
    """
    loaded = presets.load_document(path)
    document: Document
    if is_checked:
        document = presets.resolve(loaded, source=str(path)).model_dump(mode="json")
    else:
        document = completed(loaded)
    left: tuple[str, ...] = ()
    if is_built_in(path):
        left = tuple(p for p in user_settings() if presets.value_at(loaded, p) is None)
    known = settings_by_path(variants_in(document))
    for setting in left:
        kept = without_demo_value(value(setting)) if setting in known else None
        if kept is not None:
            document = presets.with_value(document, setting, kept)
    if _PROMPTS in left:
        document = _with_sample_sizes(document, value(_RESOLUTION))
    run = run_folder_of(path)
    name = preset.name if preset else run.name if run else path.stem
    can_overwrite = run is None and not is_built_in(path)
    return document, PresetOrigin(
        name, path, can_overwrite, str(loaded.get("description", "")), left
    )


def _with_sample_sizes(document: Document, before: object) -> Document:
    """Return a preset with a user's prompts, of which those of the resolution before follow it."""
    prompts, side = (presets.value_at(document, path) for path in (_PROMPTS, _RESOLUTION))
    sized = [
        each | {"width": side, "height": side}
        if each.get("width") == each.get("height") == before
        else each
        for each in prompts
    ]
    return presets.with_value(document, _PROMPTS, sized)


def portable_config(config: TrainConfig) -> TrainConfig:
    """Return the config with absolute paths, so that it means the same in any folder.

    Paths with their default value stay relative, because a preset file omits them.
    """
    plain: Document = config.model_dump(mode="json")
    whole: Document = presets.with_absolute_paths(config).model_dump(mode="json")
    variants = variants_in(plain)
    defaults = defaults_in(variants)
    for path, setting in settings_by_path(variants).items():
        default = presets.value_at(defaults, path)
        if setting.ui.is_path and presets.value_at(plain, path) == default:
            whole = presets.with_value(whole, path, default)
    return presets.resolve(whole, source="")


def still_valid(
    found: Sequence[Problem], checked: Sequence[object], file_settings: Sequence[object]
) -> list[Problem]:
    """Return the problems of files whose settings have not changed since the check.

    Args:
        found: Problems found by the check.
        checked: Checked values, in the order of `checked_settings`.
        file_settings: Current values, in the same order.
    """
    pairs = zip(checked_settings(), checked, file_settings, strict=True)
    changed = {path for path, old, new in pairs if old != new}
    return [
        problem
        for problem in found
        if problem.path not in changed and (problem.fix is None or problem.fix.path not in changed)
    ]
