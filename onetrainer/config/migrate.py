"""Migration of config files of earlier versions."""

from collections.abc import Callable
from typing import Any

from onetrainer.config.base.amount import Amount
from onetrainer.config.renamed import RENAMED
from onetrainer.config.run.validation import Validation
from onetrainer.config.train import VERSION
from onetrainer.errors import UserError
from onetrainer.json_file import Document


def _components_by_name(document: Document) -> Document:
    """Give each component of the model its own switch and learning rate (version 2)."""
    changed = dict(document)
    method, optimizer = _section(document, "method"), _section(document, "optimizer")
    train, rate = method.pop("train_text_encoder", None), optimizer.pop("text_encoder_lr", None)
    # Version 1 had one switch for all encoders of a model.
    is_xl = str(_section(document, "model").get("family", "")).startswith("sdxl")
    for name in ("text_encoder", "text_encoder_2") if is_xl else ("text_encoder",):
        values = {"train": train, "lr": rate}
        given = {key: value for key, value in values.items() if value is not None}
        if given:
            method[name] = given
    for key, section in (("method", method), ("optimizer", optimizer)):
        if (key in document and isinstance(document[key], dict)) or section:
            changed[key] = section
    return changed


def _checkpointing_choice(document: Document) -> Document:
    """Turn the switch for gradient checkpointing into a choice (version 3)."""
    hardware = _section(document, "hardware")
    if isinstance(hardware.get("gradient_checkpointing"), bool):
        hardware["gradient_checkpointing"] = (
            "block" if hardware["gradient_checkpointing"] else "off"
        )
        return {**document, "hardware": hardware}
    return document


def _dropout_with_captions(document: Document) -> Document:
    """Move caption dropout to the caption settings (version 4)."""
    objective, data = _section(document, "objective"), _section(document, "data")
    if "caption_dropout" not in objective:
        return document
    captions = {**_section(data, "captions"), "dropout": objective.pop("caption_dropout")}
    return {**document, "objective": objective, "data": {**data, "captions": captions}}


def _validation_by_names(document: Document) -> Document:
    """Keep the validation split of several folders as it was before version 5.

    Since then it also depends on the folders' names, and a resumed run must not measure images it
    was trained on.
    """
    validation = _section(document, "validation")
    both = bool(validation.get("use")), bool(_section(document, "data").get("concepts"))
    # A file that extends another may inherit one of the two.
    if not (any(both) if "extends" in document else all(both)):
        return document
    return {**document, "validation": {"turns": "names", **validation}}


def _settings_renamed(document: Document) -> Document:
    """Rename settings to the names that are usual in the field (versions 6 and 7)."""
    changed = document
    for old, new in RENAMED.items():
        changed = _renamed(changed, old.split("."), new.split(".")[old.count(".") :])
    objective = _section(changed, "objective")
    prior = _section(objective, "prior")
    if prior.get("kind") == "class_pictures":
        objective["prior"] = {**prior, "kind": "class_images"}
        changed = {**changed, "objective": objective}
    return changed


def interval_with_unit(document: Document) -> Document:
    """Write the unit of validation's interval into it: "2 epochs" (version 8)."""
    section = _section(document, "validation")
    if "unit" not in section:
        return document
    unit, every = section.pop("unit"), section.get("every", Validation().every)
    if unit == "epochs" and isinstance(every, int) and every:
        section["every"] = str(Amount(every, "epochs"))
    elif unit not in ("epochs", "steps"):
        return document  # which is reported as a setting that does not exist
    return {**document, "validation": section}


_OF_BEGUN: Document = {
    "training": {"mixes_shapes": False},
    "validation": {"split_by": "folders"},
}


def _as_begun(document: Document) -> Document:
    """Keep what version 9 changed, for a run that has begun before it."""
    changed = dict(document)
    for key, kept in _OF_BEGUN.items():
        if isinstance(section := document.get(key, {}), dict):
            changed[key] = {**kept, **section}
    return changed


def _as_new(document: Document) -> Document:
    """Take what version 9 changed, for runs to come: the files of runs state every setting."""
    validation = _section(document, "validation")
    if validation.get("split_by") != "folders":
        return document
    del validation["split_by"]
    return {**document, "validation": validation}


def _renamed(value: Any, path: list[str], names: list[str]) -> Any:
    """Return a copy of a document in which the last key of a path is called by other names.

    names: One, or a section's and then that of the key in it.
    """
    key, *rest = path
    if key == "*" and isinstance(value, list):
        return [_renamed(entry, rest, names) for entry in value]
    if not isinstance(value, dict) or key not in value:
        return value
    if rest:
        return {**value, key: _renamed(value[key], rest, names)}
    name, *inner = names
    if inner and inner[0] not in _section(value, name):
        others = {k: v for k, v in value.items() if k != key}
        return {**others, name: {**_section(value, name), inner[0]: value[key]}}
    return {name if k == key and name not in value else k: v for k, v in value.items()}


def _section(document: Document, key: str) -> dict[str, Any]:
    """Return a copy of a section; an empty one if it is missing."""
    value = document.get(key)
    return dict(value) if isinstance(value, dict) else {}


# MIGRATIONS[n] turns a document of version n into one of version n + 1.
MIGRATIONS: dict[int, Callable[[Document], Document]] = {
    1: _components_by_name,
    2: _checkpointing_choice,
    3: _dropout_with_captions,
    4: _validation_by_names,
    5: _settings_renamed,
    6: _settings_renamed,
    7: interval_with_unit,
}


_OWN_STEPS = 9
"""Since this version a begun run has other steps and another split than one to come."""
_RENAMED_AFTER = 5
"""The last version with the oldest former names: the migrations from it only rename settings."""


def migrate(document: Document, *, source: str, goes_on: bool = False) -> Document:
    """Return the document in the current layout.

    A document without a version counts as current, but may use former names of settings: no current
    setting has one of them.

    goes_on: Whether it is of a run that goes on as it began, and not of one to come.

    Raises UserError: the version is newer than this program, or not a number.
    """
    version = document.get("version", _RENAMED_AFTER)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UserError(
            f"{source}: version {version!r} is not a config version",
            f"Expected a whole number from 1 to {VERSION}",
            "Remove the line, or restore the file.",
        )
    if version > VERSION:
        raise UserError(
            f"{source}: this file has config version {version}",
            f"This program supports versions up to {VERSION}",
            "Update the program, or create the settings again in this version.",
        )
    for step in range(version, len(MIGRATIONS) + 1):
        document = MIGRATIONS[step](document)
    if version < _OWN_STEPS:
        document = _as_begun(document) if goes_on else _as_new(document)
    return {**document, "version": VERSION}
