"""What can be known to be wrong before a run starts: files, folders, disk; without torch."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from onetrainer import presets
from onetrainer.config.rules import broken_rules
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, ProblemsError, UserError
from onetrainer.json_file import Document, shortened

ENOUGH_DISK = 1 << 30
LEAST_DISK = 64 << 20
_SHOWN_PICTURES = 5


def document_problems(document: Document, *, source: str) -> tuple[TrainConfig, list[Problem]]:
    """The config of a document with everything that is wrong about it, told in one go.

    Settings that are wrong by themselves have their defaults in the config, so that the others can
    be looked into: files, folders, and what several settings show together.
    """
    try:
        config = presets.with_absolute_paths(presets.resolve(document, source=source))
        return config, all_problems(config)
    except ProblemsError as error:
        wrong = error.problems
    sound = presets.without(document, [problem.path for problem in wrong])
    try:
        config = presets.with_absolute_paths(presets.resolve(sound, source=source))
    except ProblemsError:
        return TrainConfig(), wrong
    named = {problem.path for problem in wrong}
    return config, wrong + [found for found in all_problems(config) if found.path not in named]


def all_problems(config: TrainConfig) -> list[Problem]:
    """Everything wrong with a config whose values are each allowed: rules, then the disk."""
    broken = broken_rules(config)
    named = {problem.path for problem in broken if problem.severity == "error"}
    # A path that is missing has been told of already.
    return broken + [found for found in check_environment(config) if found.path not in named]


def check_environment(config: TrainConfig) -> list[Problem]:
    """What the files and folders that the config names would stop or hamper."""
    checks: dict[str, Callable[[TrainConfig], list[Problem]]] = {
        "model.path": _check_model,
        "data.folder": _check_pictures,
        "output.folder": lambda config: _check_writable("output.folder", config.output.folder),
        "data.cache_folder": lambda config: _check_writable(
            "data.cache_folder", config.data.cache_folder
        ),
    }
    found = []
    for path, check in checks.items():
        try:
            found += check(config)
        except UserError as error:
            found.append(Problem(path, error.what, error.expected, error.remedy))
        except OSError as error:  # a name too long, a folder that may not be looked into
            found.append(_cannot_look(path, error))
    return found


def require_startable(problems: list[Problem], *, source: str = "") -> list[Problem]:
    """The warnings among them. Raises ProblemsError with all the errors if there is one."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise ProblemsError(errors, source)
    return problems


def _check_model(config: TrainConfig) -> list[Problem]:
    from onetrainer.model_file import inspect_model, require_family

    if config.model.path:
        require_family(inspect_model(Path(config.model.path)), config.model.family)
    return []


def _check_pictures(config: TrainConfig) -> list[Problem]:
    from onetrainer.dataset_index import index_folder

    if not config.data.folder:
        return []
    index = index_folder(
        Path(config.data.folder),
        resolution=config.data.resolution,
        include_subfolders=config.data.include_subfolders,
        require_captions=config.data.require_captions,
    )
    found = []
    if index.skipped:
        found.append(_skipped_pictures([f"{s.path.name} ({s.reason})" for s in index.skipped]))
    if index.uncaptioned:
        found.append(
            Problem(
                "data.folder",
                f"{index.uncaptioned} of {len(index.items)} pictures have no caption",
                "They are trained with an empty prompt",
                "Write a .txt file of the same name beside each.",
                "warning",
            )
        )
    return found


def _skipped_pictures(names: list[str]) -> Problem:
    rest = len(names) - _SHOWN_PICTURES
    listed = ", ".join(names[:_SHOWN_PICTURES]) + (f" and {rest} more" if rest > 0 else "")
    count = f"{len(names)} picture{'s' if len(names) > 1 else ''}"
    return Problem(
        "data.folder",
        f"{count} cannot be used: {listed}",
        "The others are trained",
        "Replace or remove them.",
        "warning",
    )


def _check_writable(path: str, value: str) -> list[Problem]:
    if not value:
        return []
    folder = Path(value).absolute()
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    what = ""
    if not existing.is_dir():
        what = f"{existing}: this is a file"
    elif not os.access(existing, os.W_OK | os.X_OK):
        what = f"{existing}: this folder cannot be written to"
    if what:
        return [Problem(path, what, "Expected a folder you may write to", "Choose another one.")]
    return _check_space(path, existing)


def _check_space(path: str, folder: Path) -> list[Problem]:
    free = shutil.disk_usage(folder).free
    if free >= ENOUGH_DISK:
        return []
    return [
        Problem(
            path,
            f"{folder}: only {free / 2**20:.0f} MiB are free on this disk",
            f"At least {LEAST_DISK >> 20} MiB are needed, and 1 GiB is comfortable",
            "Free some space or choose another disk.",
            "error" if free < LEAST_DISK else "warning",
        )
    ]


def _cannot_look(path: str, error: OSError) -> Problem:
    reason = (error.strerror or str(error)).lower()
    place = shortened(Path(str(error.filename or "")))
    return Problem(path, f"{place}: {reason}", "Expected a place that can be read", "Check it.")
