"""The note, or the question, about what a run does outside its folder."""

import sys
from collections.abc import Sequence
from pathlib import Path

from onetrainer.checks.effects import (
    confirm_effects,
    is_own,
    new_base_downloads,
    new_effects,
)
from onetrainer.cli.screen import print_lines
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.json_file import Document
from onetrainer.presets.find import expanded
from onetrainer.presets.presets import (
    load,
    load_document,
    resolve,
    with_absolute_paths,
    with_overrides,
    with_value,
)
from onetrainer.redaction import without_tokens
from onetrainer.rules.changes import config_at
from onetrainer.run.run_folder import RunFolder


def load_looked_at(
    place: str, overrides: Sequence[str], *, wanted: str = "a config file or a preset"
) -> Document:
    """Return the settings of a config that is only looked at.

    Those of a run, whose folder may come from anybody, keep what is found of their images beside
    the run until somebody has said that it may write elsewhere.
    """
    document = load(place, may_be_run=True, wanted=wanted)
    run = RunFolder(Path(expanded(place)))
    if run.is_run():
        config = with_absolute_paths(resolve(document, source=place))
        if lines := new_effects(config, run.path.parent, with_code=False):
            for line in lines:
                sys.stderr.write(f"note: {run.name} {without_tokens(line)}: not done here\n")
            document = with_value(document, "output.folder", str(run.path.absolute().parent))
            document = with_value(document, "data.cache_folder", "")
    return with_overrides(document, overrides)


def note_effects(config: TrainConfig, file: Path) -> None:
    """List what settings that a person has named do elsewhere, once; those of a preset do not.

    No question, since commands also run where nobody answers; code is asked for by `trust`.
    """
    lines = [] if is_own(file) else new_effects(config, file.absolute().parent)
    for line in lines:
        sys.stderr.write(f"note: {without_tokens(file.name)} {without_tokens(line)}\n")
    if lines:
        confirm_effects(lines)


def ask_for_effects_of(run: RunFolder, *, is_meant: bool) -> None:
    """Ask the same of a run that is to go on in its folder."""
    try:
        config = resolve(load_document(run.config, goes_on=True), source=str(run.config))
    except UserError:  # which the run itself reports
        return
    _ask(new_effects(config, run.path.parent, is_new=False), run, is_meant=is_meant)


def ask_for_effects(config: TrainConfig, run: RunFolder, *, is_meant: bool) -> None:
    """Ask whether a run, whose folder may come from anybody, may do what it does elsewhere.

    is_meant: Whether the person has said so already.

    Raises:
        UserError: If not, or if nobody can be asked.
    """
    _ask(new_effects(config, run.path.parent), run, is_meant=is_meant)


def ask_for_base_model(run: RunFolder, step: int | None, *, is_meant: bool) -> None:
    """Ask whether the base model of a run's checkpoint may be downloaded, if it is not here."""
    _ask(new_base_downloads(config_at(run, step)), run, is_meant=is_meant)


def _ask(lines: list[str], run: RunFolder, *, is_meant: bool) -> None:
    if not lines:
        return
    if not is_meant:
        print_lines([f"The run in {run.path}", *(f"  {line}" for line in lines)])
        if not sys.stdin.isatty():
            raise UserError(
                f"{run.path}: this run {'; it '.join(lines)}",
                "This terminal cannot ask whether it may",
                "Add --yes if it may, or correct its config.json",
            )
        if input("May it? [y/N] ").strip().lower() not in ("y", "yes"):
            raise UserError(f"{run.path}: nothing was started")
    confirm_effects(lines)
