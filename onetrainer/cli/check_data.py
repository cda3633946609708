"""`onetrainer check-data`: a check of pictures in the terminal."""

import argparse
import json
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

from onetrainer.cache.run_entries import cache_folder
from onetrainer.checks.image_check import CheckResult, check_dataset
from onetrainer.cli.screen import Screen
from onetrainer.concepts.folder_listing import IMAGE_SUFFIXES, UNREAD_SUFFIXES
from onetrainer.config.fields import Setting
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_DONE, UserError
from onetrainer.images.findings import lines, printable, summary
from onetrainer.images.image_index import ImageIndex
from onetrainer.presets import presets
from onetrainer.run.run_folder import RunFolder


def check_data(options: argparse.Namespace) -> int:
    """Tells what is likely to spoil a training by the pictures themselves; changes none of them.

    That something is found is an answer, and no failure.
    """
    config, is_folder = _chosen(options.config, options.set)
    screen = Screen(sys.stderr, sys.stderr.isatty())

    def progress(done: int, total: int) -> None:
        screen.move(f"looking at pictures {done}/{total}")

    with ExitStack() as stack:
        memory = None
        if not is_folder:  # which has no place to keep anything in
            memory = stack.enter_context(closing(ImageIndex(cache_folder(config))))
        checked = check_dataset(config, memory, progress)
    screen.clear()
    if options.json:
        sys.stdout.write(as_json(checked) + "\n")
        return EXIT_DONE
    for line in lines(checked.findings):
        sys.stdout.write(line + "\n")
    sys.stdout.write(summary(checked.findings, checked.images) + "\n")
    return EXIT_DONE


def as_json(checked: CheckResult) -> str:
    """The findings for programs."""
    found = [asdict(finding) for finding in checked.findings]
    content = {"pictures": checked.images, "findings": found}
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def _chosen(place: str, changes: list[str]) -> tuple[TrainConfig, bool]:
    """The config to check, and whether it stands for a mere folder of pictures.

    A folder is checked, with the folders in it, as if a config of defaults named it. Findings name
    files as the folders are named in it: as they were given, or seen from the current folder.
    """
    path = Path(presets.expanded(place))
    is_folder = path.is_dir() and not _is_run(RunFolder(path))
    if is_folder:
        _require_text(path)
        document = presets.with_value({}, "data.folder", str(path))
        document = presets.with_value(document, "data.include_subfolders", True)
    else:
        _require_no_image(path)
        wanted = "a folder of pictures, a config file or a preset"
        document = presets.load_document(presets.locate(place, may_be_run=True, wanted=wanted))
    document = presets.with_overrides(document, changes)
    config = presets.resolve(document, source=place)
    if is_folder:
        return config, True
    config = presets.with_absolute_paths(config)
    return (config if path.is_absolute() else _from_here(config)), False


def _is_run(run: RunFolder) -> bool:
    """Not one that may not be looked into, which is told as a folder of pictures is."""
    try:
        return run.config.is_file() and run.events.is_file()
    except OSError:
        return False


def _require_text(folder: Path) -> None:
    """Raises UserError for a name that is no text, which no config can hold."""
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{printable(str(folder))}: the name of this folder is in no known encoding",
            "A name that can be written down is needed",
            "Give the folder another name",
        ) from error


def _require_no_image(path: Path) -> None:
    """Raises UserError for a single picture: what is to be checked is its folder."""
    if path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES | UNREAD_SUFFIXES:
        raise UserError(
            f"{printable(str(path))} is a picture",
            "A folder of pictures, a config file or a preset is needed",
            f'Name its folder, "{printable(str(path.absolute().parent))}"',
        )


def _from_here(config: TrainConfig) -> TrainConfig:
    """The same files, where they lie in the current folder named as seen from there."""
    here = Path.cwd()

    def near(_: Setting, path: str) -> str:
        return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path

    return presets.with_paths(config, near)
