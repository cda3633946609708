"""Where files and values come from: a run's folder, the demo, the person. No Tk."""

from pathlib import Path

from onetrainer.demo.configs import SAMPLES, WORD_SAMPLES, demo_configs
from onetrainer.demo.write import MARKER
from onetrainer.errors import UserError
from onetrainer.run.run_folder import RunFolder

_DEMO_PROMPTS = frozenset(prompt for prompt, _ in (*SAMPLES, *WORD_SAMPLES))
_DEMO_NAMES = frozenset(config["output"]["name"] for config in demo_configs().values())


def run_folder_of(path: Path) -> Path | None:
    """The folder of the run that a file belongs to; None if it belongs to none."""
    for folder in path.absolute().parents:
        run = RunFolder(folder)
        if run.config.is_file() and run.checkpoints.is_dir():
            return folder
    return None


def require_outside_run(path: Path) -> None:
    """Raises UserError if a file would be written among those of a run."""
    run = run_folder_of(path)
    if run is not None:
        raise UserError(
            f"{path}: this is the folder of the run “{run.name}”",
            "What a run was started with stays as it is, so that it can be repeated",
            "Save under another name.",
        )


def without_demo_value(value: object) -> object:
    """A value that a person has, less what only the demo has given; None if nothing is left."""
    if isinstance(value, list):
        kept = [item for item in value if not _is_demo_prompt(item)]
        # An empty list was emptied by the person.
        return kept if kept or not value else None
    if isinstance(value, str) and (value in _DEMO_NAMES or _is_in_demo(value)):
        return None
    return value


def _is_demo_prompt(item: object) -> bool:
    return isinstance(item, dict) and item.get("prompt") in _DEMO_PROMPTS


def _is_in_demo(value: str) -> bool:
    path = Path(value)
    if not path.is_absolute():
        return False
    try:
        return any((folder / MARKER).is_file() for folder in (path, *path.parents))
    except OSError:  # a folder that may not be looked into, a name too long
        return False
