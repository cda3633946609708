"""A user's own presets: their notes, renaming, and deletion that can be undone."""

import time
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.files.names import name_problem
from onetrainer.json_file import read_json
from onetrainer.presets.find import own_folder
from onetrainer.presets.presets import save_document
from onetrainer.run.run_folder import cannot_write
from onetrainer.run.user_folder import user_folder


def is_own(path: Path) -> bool:
    """Return whether a file is one of the user's presets."""
    return path.is_relative_to(own_folder())


def deleted_folder() -> Path:
    """Return the folder that keeps deleted presets."""
    return user_folder() / "deleted presets"


def notes_of(path: Path) -> str:
    """Return the notes in a preset file; "" if it has none or cannot be read."""
    try:
        return str(read_json(path).get("notes", ""))
    except UserError:
        return ""


def describe(path: Path, **texts: str) -> None:
    """Write the `description` or the `notes` of a preset file; its settings stay as they are.

    Raises UserError: The file cannot be read or written.
    """
    document = read_json(path)
    about = {key: document[key] for key in ("version",) if key in document}
    about |= {key: document.pop(key) for key in ("description", "notes") if key in document}
    about |= texts
    save_document(path, {key: text for key, text in about.items() if text} | document)


def rename(path: Path, name: str) -> Path:
    """Rename a preset within its folder and return its new path.

    Raises UserError: No file can have the name, it is taken, or another preset extends this one.
    """
    if problem := name_problem(name):
        raise UserError(
            f"Not every system can have the name “{name}”: {problem}",
            "Expected the name of a file",
            "Choose another name.",
        )
    target = path.with_name(f"{name}.json")
    if target == path:
        return path
    _require_unused(path)
    if target.exists() and not target.samefile(path):  # the same one in other letters is renamed
        raise UserError(
            f"{target}: a preset with this name already exists", "", "Choose another name."
        )
    return _move(path, target)


def delete(path: Path) -> Path:
    """Move a preset to the folder of deleted ones and return where it is now.

    Raises UserError: It cannot be moved, or another preset extends it.
    """
    _require_unused(path)
    name = f"{path.stem} {time.strftime('%Y-%m-%d %H.%M.%S')}"
    target, number = deleted_folder() / f"{name}.json", 1
    while target.exists():
        number += 1
        target = target.with_name(f"{name} ({number}).json")
    return _move(path, target)


def restore(deleted: Path, path: Path) -> None:
    """Move a deleted preset back. Raises UserError: Another has its name now."""
    if path.exists():
        raise UserError(
            f"{path}: another preset has this name now",
            "",
            f"Rename that one first; the deleted one is {deleted}.",
        )
    _move(deleted, path)


def _require_unused(path: Path) -> None:
    """Raise UserError if another of the user's presets extends this one."""
    names = (path.name, path.relative_to(own_folder()).with_suffix("").as_posix())
    for other in own_folder().rglob("*.json"):
        try:
            base = read_json(other).get("extends")
        except UserError:
            continue
        if base in names and other != path:
            raise UserError(
                f"{path.stem}: the preset {other} extends it",
                "Expected a preset that no other one needs",
                'Change "extends" in that file first.',
            )


def _move(path: Path, target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    return target
