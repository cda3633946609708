"""Which settings belong to the person, to the base model, and to files on disk. No Tk."""

from collections.abc import Callable, Sequence
from pathlib import Path

from onetrainer.config.fields import Setting
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem
from onetrainer.json_file import Document
from onetrainer.presets import presets
from ui.model.preset_origin import without_demo_value
from ui.model.variants import (
    all_settings,
    defaults_in,
    entries_of,
    settings_by_path,
    value_in,
    variants_in,
)

# What belongs to the base model.
_BASE_MODEL_SETTINGS = ("model.path", "model.vae", "model.prediction", "model.zero_terminal_snr")
# What belongs to the person rather than to a way of training; a built-in preset, which can say
# nothing of these, leaves them as they are.
_USER_SECTIONS = ("model.", "data.", "sampling.", "validation.", "output.")
_IMAGE_SETTINGS = (
    "data.include_subfolders",
    "data.caption_source",
    "data.caption_text",
    "data.trigger",
    "data.class_text",
)
# Lists that belong to a way of training nevertheless.
_TRAINING_LISTS = ("data.buckets.",)
USER_SETTINGS = tuple(
    setting.path
    for setting in all_settings()
    if (
        (setting.ui.is_path or setting.kind == "list")
        and setting.path.startswith(_USER_SECTIONS)
        and not setting.path.startswith(_TRAINING_LISTS)
    )
    or setting.path in (*_BASE_MODEL_SETTINGS, *_IMAGE_SETTINGS, "model.offline", "output.name")
    or setting.path.startswith("metadata.")
)


def is_built_in(path: Path) -> bool:
    """Whether a config file is one of those that come with the program."""
    return path.resolve().is_relative_to(presets.BUILT_IN)


def user_settings_of(path: Path, loaded: Document) -> tuple[str, ...]:
    """The settings that a file leaves to the person: none, unless it is a built-in preset.

    Of any other file all counts that it says, and the default of what it does not say: it is to
    train the same here as by the command line.
    """
    if not is_built_in(path):
        return ()
    return tuple(p for p in USER_SETTINGS if presets.value_at(loaded, p) is None)


def with_user_values(
    document: Document, user_settings: Sequence[str], value: Callable[[str], object]
) -> Document:
    """A document with what a person has of the settings that are left open, less the demo's.

    value: gives the person's value at a path.
    """
    known = settings_by_path(variants_in(document))
    for path in user_settings:
        kept = without_demo_value(value(path)) if path in known else None
        if kept is not None:
            document = presets.with_value(document, path, kept)
    return document


def portable_config(config: TrainConfig) -> TrainConfig:
    """The config as it means the same when it is read again, from any folder.

    Paths are absolute, except those that are as the config has them by itself: a file does not
    mention these.
    """
    plain: Document = config.model_dump(mode="json")
    whole: Document = presets.with_absolute_paths(config).model_dump(mode="json")
    variants = variants_in(plain)
    defaults = defaults_in(variants)
    for path, setting in settings_by_path(variants).items():
        default = value_in(defaults, path)
        if setting.ui.is_path and value_in(plain, path) == default:
            whole = presets.with_value(whole, path, default)
    return presets.resolve(whole, source="")


def _names_path(setting: Setting) -> bool:
    """Whether a setting names places on disk, itself or in its entries."""
    return setting.ui.is_path or any(part.ui.is_path for part in entries_of(setting))


# What a look at files and folders depends on; prompts to watch are compared with those of a file.
CHECKED_SETTINGS = tuple(
    setting.path
    for setting in all_settings()
    if _names_path(setting)
    or setting.path == "method.kind"
    or setting.path.startswith(("model.", "data.", "objective.prompts.", "objective.evaluation."))
)


def still_valid(
    found: Sequence[Problem], checked: Sequence[object], file_settings: Sequence[object]
) -> list[Problem]:
    """Of what a look at files has found that which was not said of values that have changed since.

    answered, question: what the look has seen, and what is so now, in the order of `LOOKED_AT`.
    """
    pairs = zip(CHECKED_SETTINGS, checked, file_settings, strict=True)
    changed = {path for path, old, new in pairs if old != new}
    return [
        problem
        for problem in found
        if problem.path not in changed and (problem.fix is None or problem.fix.path not in changed)
    ]
