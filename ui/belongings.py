"""Which settings belong to the person, to the base model, and to files on disk. No Tk."""

from collections.abc import Sequence

from onetrainer.config.fields import Setting
from onetrainer.errors import Problem
from ui.kinds import all_settings, entries_of

# What belongs to the base model: it stays or goes with the model's path.
OF_THE_MODEL = ("model.path", "model.vae", "model.prediction", "model.zero_terminal_snr")
# What belongs to the person rather than to a way of training; a preset that says nothing of
# these leaves them as they are.
_OF_THE_PERSON = ("model.", "data.", "sampling.", "validation.", "output.")
_OF_THE_PICTURES = (
    "data.include_subfolders",
    "data.caption_source",
    "data.caption_text",
    "data.trigger",
)
# Lists that belong to a way of training nevertheless.
_OF_A_WAY = ("data.buckets.",)
PERSONAL = tuple(
    setting.path
    for setting in all_settings()
    if (
        (setting.ui.is_path or setting.kind == "list")
        and setting.path.startswith(_OF_THE_PERSON)
        and not setting.path.startswith(_OF_A_WAY)
    )
    or setting.path in (*OF_THE_MODEL, *_OF_THE_PICTURES, "model.offline", "output.name")
    or setting.path.startswith("metadata.")
)


def _names_files(setting: Setting) -> bool:
    """Whether a setting names places on disk, itself or in its entries."""
    return setting.ui.is_path or any(part.ui.is_path for part in entries_of(setting))


# What a look at files and folders depends on; prompts to watch are compared with those of a file.
LOOKED_AT = tuple(
    setting.path
    for setting in all_settings()
    if _names_files(setting)
    or setting.path == "method.kind"
    or setting.path.startswith(("model.", "data.", "objective.prompts.", "objective.evaluation."))
)


def still_true(
    found: Sequence[Problem], answered: Sequence[object], question: Sequence[object]
) -> list[Problem]:
    """Of what a look at files has found that which was not said of values that have changed since.

    answered, question: what the look has seen, and what is so now, in the order of `LOOKED_AT`.
    """
    pairs = zip(LOOKED_AT, answered, question, strict=True)
    changed = {path for path, old, new in pairs if old != new}
    return [
        problem
        for problem in found
        if problem.path not in changed
        and (problem.cure is None or problem.cure.path not in changed)
    ]
