"""What a file or folder is that was dropped on the window."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from onetrainer.errors import UserError

DroppedKind = Literal["preset", "images", "model", "lora", "vae", "run"]

ACCEPTED = "images, a folder of images, a model, a LoRA, a VAE, a preset or a run"


class Dropped(NamedTuple):
    """One thing that the window can use.

    path: Of images, their folder. family: What a model is or an addition was made for; "" if
    unknown. title: The same for people. is_nested: Whether all images are in subfolders.
    """

    kind: DroppedKind
    path: Path
    family: str = ""
    title: str = ""
    is_nested: bool = False


def recognize_all(paths: Iterable[Path]) -> tuple[list[Dropped], list[UserError]]:
    """Recognize what was dropped, each once, and the errors of what cannot be used.

    A preset comes first, since it replaces what others set, and a run last.
    """
    found: dict[Dropped, None] = {}
    errors: list[UserError] = []
    for path in paths:
        try:
            found[recognize(path)] = None
        except UserError as error:
            errors.append(error)
        except OSError as error:
            errors.append(UserError(f"{path}: {error.strerror}", f"Expected {ACCEPTED}"))
    last = {"preset": -1, "run": 1}
    return sorted(found, key=lambda each: last.get(each.kind, 0)), errors


def recognize(path: Path) -> Dropped:
    """Return what a file or folder is; raise UserError if the window has no use for it."""
    # Imported late to keep the start of the window fast.
    from onetrainer.concepts.folder_listing import IMAGE_SUFFIXES
    from onetrainer.presets.foreign import kind_of_content
    from ui.model.folder_entries import MODEL_SUFFIXES

    if path.is_dir():
        return _folder(path)
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        return Dropped("images", path.parent)
    if suffix == ".json":
        return Dropped("preset", path)
    if suffix in MODEL_SUFFIXES:
        return _model(path)
    if (found := kind_of_content(path)) is not None:
        raise UserError(f"{path.name}: this is {found.noun}", f"Expected {ACCEPTED}")
    raise UserError(f"{path.name}: the window has no use for this file", f"Expected {ACCEPTED}")


def _folder(path: Path) -> Dropped:
    from onetrainer.concepts.folder_listing import is_image

    if (path / "config.json").is_file() and (path / "checkpoints").is_dir():
        return Dropped("run", path)
    if (path / "model_index.json").is_file():
        return _model(path)
    for pattern in ("*", "*/*"):
        if any(is_image(each.name) for each in path.glob(pattern)):
            return Dropped("images", path, is_nested=pattern != "*")
    raise UserError(f"{path.name}: there are no images in this folder", f"Expected {ACCEPTED}")


def _model(path: Path) -> Dropped:
    from onetrainer.families.registry import FAMILY_LABELS
    from onetrainer.model_files.inspection import inspect_model
    from onetrainer.model_files.kinds import DESCRIPTIONS, NAMES

    model = inspect_model(path)
    if model.kind in FAMILY_LABELS:
        return Dropped("model", path, model.kind, NAMES[model.kind])
    owner = model.made_for or ""
    title = NAMES.get(owner, "")
    match model.kind:
        case "lora":
            return Dropped("lora", path, owner, title)
        case "vae":
            return Dropped("vae", path, owner, title)
    raise UserError(f"{path.name}: this is {DESCRIPTIONS[model.kind]}", f"Expected {ACCEPTED}")
