"""The command `onetrainer check-data`, which checks images in the terminal."""

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
from onetrainer.images.findings import format_findings, printable, summary
from onetrainer.images.image_index import ImageIndex
from onetrainer.presets import presets
from onetrainer.run.run_folder import RunFolder


def check_data(options: argparse.Namespace) -> int:
    """Report image problems that are likely to harm training; changes no file.

    Problems do not make the command fail.
    """
    config, is_folder = _chosen(options.config, options.set)
    screen = Screen(sys.stderr, sys.stderr.isatty())

    def progress(done: int, total: int) -> None:
        screen.update_status(f"checking images {done}/{total}")

    with ExitStack() as stack:
        memory = None
        if not is_folder:  # an image folder has no cache
            memory = stack.enter_context(closing(ImageIndex(cache_folder(config))))
        checked = check_dataset(config, memory, progress)
    screen.clear()
    if options.json:
        sys.stdout.write(as_json(checked) + "\n")
        return EXIT_DONE
    for line in format_findings(checked.findings):
        sys.stdout.write(line + "\n")
    sys.stdout.write(summary(checked.findings, checked.images) + "\n")
    return EXIT_DONE


def as_json(checked: CheckResult) -> str:
    """Return the findings as JSON."""
    findings = [asdict(finding) | {"severity": finding.severity} for finding in checked.findings]
    content = {"pictures": checked.images, "findings": findings}
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def _chosen(place: str, changes: list[str]) -> tuple[TrainConfig, bool]:
    """Return the config to check and whether it stands for an image folder.

    An image folder is checked including its subfolders, as if a config of defaults named it.
    Findings name files as the config names their folders: as given, or relative to the current
    folder.
    """
    path = Path(presets.expanded(place))
    try:
        run = RunFolder(path)
        is_run = run.config.is_file() and run.events.is_file()
    except OSError:  # no permission; reported as for an image folder
        is_run = False
    is_folder = path.is_dir() and not is_run
    if is_folder:
        _require_text(path)
        document = presets.with_value({}, "data.folder", str(path))
        document = presets.with_value(document, "data.include_subfolders", True)
    else:
        _require_no_image(path)
        expected = "an image folder, a config file or a preset"
        document = presets.load_document(presets.locate(place, may_be_run=True, wanted=expected))
    document = presets.with_overrides(document, changes)
    config = presets.resolve(document, source=place)
    if is_folder:
        return config, True
    config = presets.with_absolute_paths(config)
    return (config if path.is_absolute() else _from_here(config)), False


def _require_text(folder: Path) -> None:
    """Raise UserError for a folder name that is not valid text, which no config can hold."""
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{printable(str(folder))}: this folder's name is in no known encoding",
            "Expected a name of valid characters",
            "Rename the folder",
        ) from error


def _require_no_image(path: Path) -> None:
    """Raise UserError for a single image, since its folder is to be checked."""
    if path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES | UNREAD_SUFFIXES:
        raise UserError(
            f"{printable(str(path))} is an image",
            "Expected an image folder, a config file or a preset",
            f'Give its folder, "{printable(str(path.absolute().parent))}"',
        )


def _from_here(config: TrainConfig) -> TrainConfig:
    """Return the config with paths below the current folder relative to it."""
    here = Path.cwd()

    def relative(_: Setting, path: str) -> str:
        return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path

    return presets.with_paths(config, relative)
