"""`onetrainer check-data`: a check of pictures in the terminal."""

import argparse
import json
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

from onetrainer import presets
from onetrainer.cache.plan import cache_folder
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_DONE
from onetrainer.pictures.check import Checked, check_dataset
from onetrainer.pictures.findings import lines, summary
from onetrainer.pictures.memory import PictureMemory
from onetrainer.run_folder import RunFolder
from onetrainer.screen import Screen


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
            memory = stack.enter_context(closing(PictureMemory(cache_folder(config))))
        checked = check_dataset(config, memory, progress)
    screen.clear()
    if options.json:
        sys.stdout.write(as_json(checked) + "\n")
        return EXIT_DONE
    root = config.data.folder
    for line in lines(checked.findings, root=Path(root) if root else None):
        sys.stdout.write(line + "\n")
    sys.stdout.write(summary(checked.findings, checked.pictures) + "\n")
    return EXIT_DONE


def as_json(checked: Checked) -> str:
    """The findings for programs."""
    found = [asdict(finding) for finding in checked.findings]
    content = {"pictures": checked.pictures, "findings": found}
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def _chosen(place: str, changes: list[str]) -> tuple[TrainConfig, bool]:
    """The config to check, and whether it stands for a mere folder of pictures.

    A folder is checked, with the folders in it, as if a config of defaults named it.
    """
    path = Path(presets.expanded(place))
    run = RunFolder(path)
    is_folder = path.is_dir() and not (run.config.is_file() and run.events.is_file())
    if is_folder:
        document = presets.with_value({}, "data.folder", str(path.absolute()))
        document = presets.with_value(document, "data.include_subfolders", True)
    else:
        document = presets.load_document(presets.locate(place, may_be_run=True))
    document = presets.with_overrides(document, changes)
    return presets.with_absolute_paths(presets.resolve(document, source=place)), is_folder
