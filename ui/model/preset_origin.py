"""Origin of files and values: a run's folder, the demo, or the user."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from onetrainer.demo.write import MARKER, demo_configs
from onetrainer.errors import UserError
from onetrainer.run.run_folder import RunFolder


class _Demo(NamedTuple):
    """What the configs of the demo set that nobody else would."""

    prompts: frozenset[str]
    names: frozenset[str]


@cache
def _demo() -> _Demo:
    configs = demo_configs().values()
    entries = (entry for config in configs for entry in config["sampling"].get("prompts", ()))
    return _Demo(
        frozenset(entry["prompt"] for entry in entries),
        frozenset(config["output"]["name"] for config in configs),
    )


class PresetOrigin(NamedTuple):
    """Where the values of a draft were loaded from.

    Attributes:
        path: None if they were not loaded from a file.
        can_overwrite: Whether saving may replace the file.
        user_settings: Settings that the file leaves to the user.
    """

    name: str = ""
    path: Path | None = None
    can_overwrite: bool = False
    description: str = ""
    user_settings: tuple[str, ...] = ()


def run_folder_of(path: Path) -> Path | None:
    """Return the folder of the run that a file belongs to; None if it belongs to none."""
    for folder in path.absolute().parents:
        run = RunFolder(folder)
        if run.config.is_file() and run.checkpoints.is_dir():
            return folder
    return None


def require_outside_run(path: Path) -> None:
    """Check that a file would not be written into a run's folder.

    Raises:
        UserError: If it would.
    """
    run = run_folder_of(path)
    if run is not None:
        raise UserError(
            f"{path}: this is the folder of the run “{run.name}”",
            "The settings of a run are not overwritten, so that it can be repeated",
            "Save under another name.",
        )


def without_demo_value(value: object) -> object:
    """Return the user's value without what only the demo has set; None if nothing is left."""
    if isinstance(value, list):
        kept = [
            item
            for item in value
            if not (isinstance(item, dict) and item.get("prompt") in _demo().prompts)
        ]
        # A list that was empty before was emptied by the user.
        return kept if kept or not value else None
    if isinstance(value, str) and (value in _demo().names or _is_in_demo(value)):
        return None
    return value


def _is_in_demo(value: str) -> bool:
    path = Path(value)
    if not path.is_absolute():
        return False
    try:
        return any((folder / MARKER).is_file() for folder in (path, *path.parents))
    except OSError:  # an unreadable folder, or a name that is too long
        return False
