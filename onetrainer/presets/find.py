"""Finding of presets and config files by name or path."""

from pathlib import Path
from typing import Literal, NamedTuple

from onetrainer import ROOT, program
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.json_file import Document, read_json, shortened
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.user_folder import user_folder

ABOUT = ("description", "extends", "notes")
"""Keys of a preset file that are not settings."""
BUILT_IN = ROOT / "configs" / "presets"
_MAX_NAME_LENGTH = 4096


class Preset(NamedTuple):
    """A named config file. name: its path below its folder without the extension ("dogs/lora")."""

    name: str
    path: Path
    description: str
    origin: Literal["built in", "yours"]
    notes: str = ""


def find_presets() -> list[Preset]:
    """Return the built-in presets, then the user's own, both sorted by name."""
    return [*_presets_in(BUILT_IN, "built in"), *_presets_in(own_folder(), "yours")]


def own_folder() -> Path:
    """Return the folder of the user's presets."""
    return user_folder() / "presets"


def preset_name(path: Path) -> str:
    """Return the name of a preset's file: its path below the user's folder, else its own name."""
    if path.is_relative_to(folder := own_folder()):
        return path.relative_to(folder).with_suffix("").as_posix()
    return path.stem


def locate(
    name_or_path: str, *, may_be_run: bool = False, wanted: str = "a config file or a preset"
) -> Path:
    """Return the config file for a path or a preset's name.

    Args:
        name_or_path: The path or name.
        may_be_run: Whether a run's folder stands for the config in it.
        wanted: What is expected, for the error message.

    Raises UserError: there is no such file or preset.
    """
    path = Path(expanded(name_or_path))
    if is_file(path):
        return path
    run = RunFolder(path)
    if run.is_run():
        if may_be_run:
            return run.config
        raise UserError(
            f"{shortened(path)}: this is a run folder",
            "Expected a config file or a preset",
            f"Resume it with `{program()} resume {shortened(path)}`, or name its"
            f" {run.config.name} to start another run like it.",
        )
    for folder in (BUILT_IN, own_folder()):
        named = folder / f"{name_or_path}.json"
        if ".." not in path.parts and not path.is_absolute() and is_file(named):
            return named
    import difflib  # late, since it is for this message alone

    presets = find_presets()
    is_folder = len(name_or_path) < _MAX_NAME_LENGTH and path.is_dir()
    what = "this is a folder" if is_folder else "there is no such file or preset"
    longer = [preset.name for preset in presets if preset.name.startswith(name_or_path)]
    similar = difflib.get_close_matches(name_or_path, [preset.name for preset in presets], n=3)
    suggestions = " or ".join(f'"{name}"' for name in similar)
    raise UserError(
        f"{shortened(Path(name_or_path))}: {what}",
        f"Expected {wanted}" + (f"; presets: {', '.join(longer)}" if longer else ""),
        f"Did you mean {suggestions}?"
        if similar and not longer
        else "Check the name; `onetrainer presets` lists them.",
    )


def expanded(text: str) -> str:
    """Return a path with `~` replaced by the home folder. Raises UserError for an unknown user."""
    try:
        return str(Path(text).expanduser())
    except RuntimeError as error:
        raise UserError(
            f"{text}: there is no such user on this computer", "Expected a path", "Correct it."
        ) from error


def is_file(path: Path) -> bool:
    """Return whether there is such a file, also for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:  # the name is too long, or the folder is not accessible
        return False


def _presets_in(folder: Path, origin: Literal["built in", "yours"]) -> list[Preset]:
    presets = []
    for path in folder.rglob("*.json"):
        try:
            document = read_config(path)
        except UserError:
            document = {"description": "This file cannot be read as a preset."}
        description, notes = (str(document.get(key, "")) for key in ("description", "notes"))
        name = path.relative_to(folder).with_suffix("").as_posix()
        presets.append(Preset(name, path, description, origin, notes))
    return sorted(presets, key=lambda preset: preset.name)


def read_config(path: Path) -> Document:
    """Read a config file. Raises UserError if it cannot be read, or is a file of another kind."""
    try:
        document = read_json(path)
    except UserError:
        _require_config(path, None)
        raise
    if not document.keys() <= {*TrainConfig.model_fields, *ABOUT}:
        _require_config(path, document)
    return document


def _require_config(path: Path, document: Document | None) -> None:
    from onetrainer.presets.foreign import require_config  # seldom needed, and large

    require_config(path, document)
