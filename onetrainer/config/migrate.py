"""Config files of earlier versions, brought up to date."""

from collections.abc import Callable
from typing import Any

from onetrainer.config.renamed import RENAMED
from onetrainer.config.train import VERSION
from onetrainer.errors import UserError
from onetrainer.json_file import Document


def _networks_by_name(document: Document) -> Document:
    """Version 2: each network of the model has its own switch and its own learning rate."""
    changed = dict(document)
    method, optimizer = _section(document, "method"), _section(document, "optimizer")
    train, rate = method.pop("train_text_encoder", None), optimizer.pop("text_encoder_lr", None)
    # Version 1 had one switch for all encoders of a model.
    is_xl = str(_section(document, "model").get("family", "")).startswith("sdxl")
    for name in ("text_encoder", "text_encoder_2") if is_xl else ("text_encoder",):
        values = {"train": train, "lr": rate}
        told = {key: value for key, value in values.items() if value is not None}
        if told:
            method[name] = told
    for key, section in (("method", method), ("optimizer", optimizer)):
        if (key in document and isinstance(document[key], dict)) or section:
            changed[key] = section
    return changed


def _checkpointing_in_words(document: Document) -> Document:
    """Version 3: gradient checkpointing says what is computed twice."""
    hardware = _section(document, "hardware")
    if isinstance(hardware.get("gradient_checkpointing"), bool):
        hardware["gradient_checkpointing"] = (
            "block" if hardware["gradient_checkpointing"] else "off"
        )
        return {**document, "hardware": hardware}
    return document


def _dropout_with_captions(document: Document) -> Document:
    """Version 4: caption dropout stands with what else changes captions."""
    objective, data = _section(document, "objective"), _section(document, "data")
    if "caption_dropout" not in objective:
        return document
    captions = {**_section(data, "captions"), "dropout": objective.pop("caption_dropout")}
    return {**document, "objective": objective, "data": {**data, "captions": captions}}


def _validation_by_names(document: Document) -> Document:
    """Version 5: what is held out of several folders goes by their names as well.

    Where it was done otherwise it stays so: a run must not measure what it has learned.
    """
    validation = _section(document, "validation")
    both = bool(validation.get("use")), bool(_section(document, "data").get("concepts"))
    # A file that extends another may have one of them from there.
    if not (any(both) if "extends" in document else all(both)):
        return document
    return {**document, "validation": {"turns": "names", **validation}}


def _settings_renamed(document: Document) -> Document:
    """Version 6: settings bear the field's names."""
    changed = document
    for old, new in RENAMED.items():
        changed = _moved(changed, old.split("."), new.split(".")[-1])
    objective = _section(changed, "objective")
    prior = _section(objective, "prior")
    if prior.get("kind") == "class_pictures":
        objective["prior"] = {**prior, "kind": "class_images"}
        changed = {**changed, "objective": objective}
    return changed


def _moved(value: Any, path: list[str], name: str) -> Any:
    """A copy of a document in which the setting at a path has another last name."""
    key, *rest = path
    if key == "*" and isinstance(value, list):
        return [_moved(entry, rest, name) for entry in value]
    if not isinstance(value, dict) or key not in value:
        return value
    if rest:
        return {**value, key: _moved(value[key], rest, name)}
    return {name if own == key and name not in value else own: v for own, v in value.items()}


def _section(document: Document, key: str) -> dict[str, Any]:
    """A copy of a section; an empty one where there is none."""
    value = document.get(key)
    return dict(value) if isinstance(value, dict) else {}


# One step a version: MIGRATIONS[n] turns a document of version n into one of version n + 1.
MIGRATIONS: dict[int, Callable[[Document], Document]] = {
    1: _networks_by_name,
    2: _checkpointing_in_words,
    3: _dropout_with_captions,
    4: _validation_by_names,
    5: _settings_renamed,
}


def migrate(document: Document, *, source: str) -> Document:
    """The document in today's layout; a document without a version counts as today's.

    Raises UserError for a version that is newer than this program, or is no number.
    """
    version = document.get("version", VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UserError(
            f"{source}: version {version!r} is not a config version",
            f"Expected a whole number from 1 to {VERSION}",
            "Remove the line, or restore the file.",
        )
    if version > VERSION:
        raise UserError(
            f"{source}: this file has config version {version}",
            f"This program knows versions up to {VERSION}",
            "Update the program, or save the preset from the version you have.",
        )
    for step in range(version, VERSION):
        document = MIGRATIONS[step](document)
    return {**document, "version": VERSION}
