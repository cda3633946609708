"""The command `onetrainer check-data`, which checks images in the terminal."""

import argparse
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

from onetrainer.cache.run_entries import cache_folder
from onetrainer.checks.image_check import check_dataset
from onetrainer.cli.effects import load_looked_at
from onetrainer.cli.screen import Screen, print_result
from onetrainer.concepts.folder_listing import IMAGE_SUFFIXES, UNREAD_SUFFIXES
from onetrainer.config.fields import Setting
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.images.findings import format_findings, printable, summary
from onetrainer.images.image_index import ImageIndex
from onetrainer.presets import presets
from onetrainer.presets.find import expanded
from onetrainer.run.run_folder import RunFolder


def check_data(options: argparse.Namespace) -> int:
    """Report image problems that are likely to harm training; changes no file.

    Problems do not make the command fail.
    """
    config, is_folder = _chosen(options.config, options.set)
    screen = Screen(sys.stderr)

    def progress(done: int, total: int) -> None:
        screen.update_status(f"checking images {done}/{total}")

    with ExitStack() as stack:
        memory = None
        if not is_folder:  # an image folder has no cache
            memory = stack.enter_context(closing(ImageIndex(cache_folder(config))))
        checked = check_dataset(config, memory, progress)
    screen.clear()
    findings = [asdict(finding) | {"severity": finding.severity} for finding in checked.findings]
    document = {"images": checked.images, "findings": findings}
    lines = [*format_findings(checked.findings), summary(checked.findings, checked.images)]
    return print_result(document, lines, is_json=options.json)


def _chosen(place: str, changes: list[str]) -> tuple[TrainConfig, bool]:
    """Return the config to check and whether it stands for an image folder.

    An image folder is checked including its subfolders, as if a config of defaults named it.
    Findings name files as the config names their folders: as given, or relative to the current
    folder.
    """
    path = Path(expanded(place))
    name = printable(str(path))
    if path.is_dir() and not RunFolder(path).is_run():
        try:
            str(path).encode()
        except UnicodeEncodeError as error:  # no config can hold such a name
            raise UserError(
                f"{name}: this folder's name is in no known encoding",
                "Expected a name of valid characters",
                "Rename the folder",
            ) from error
        document = {"data": {"folder": str(path), "include_subfolders": True}}
        return presets.resolve(presets.with_overrides(document, changes), source=place), True
    if path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES | UNREAD_SUFFIXES:
        raise UserError(
            f"{name} is an image",
            "Expected an image folder, a config file or a preset",
            f'Give its folder, "{printable(str(path.absolute().parent))}"',
        )
    expected = "an image folder, a config file or a preset"
    document = load_looked_at(place, changes, wanted=expected)
    config = presets.with_absolute_paths(presets.resolve(document, source=place))
    here = Path.cwd()

    def relative(_: Setting, text: str) -> str:
        return str(Path(text).relative_to(here)) if Path(text).is_relative_to(here) else text

    return config if path.is_absolute() else presets.with_paths(config, relative), False
