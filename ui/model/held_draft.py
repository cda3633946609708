"""The draft of a window that opens: its values are shown first, and checked then."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec

from onetrainer.errors import UserError
from onetrainer.presets.find import Preset
from ui.model import preset_fields
from ui.model.draft import REQUIRED, Draft
from ui.model.value_check import ValueCheck

P = ParamSpec("P")


def _settled(
    change: Callable[Concatenate["HeldDraft", P], None],
) -> Callable[Concatenate["HeldDraft", P], None]:
    """Return a change that is made only to values that are settled: it is meant for no others."""

    @wraps(change)
    def settled(draft: "HeldDraft", /, *arguments: P.args, **named: P.kwargs) -> None:
        if draft.settle():
            change(draft, *arguments, **named)

    return settled


class HeldDraft(Draft):
    """Draft that is not checked, and has no problems, until `release`.

    The first check builds the schema of the whole config and imports every rule, which takes longer
    than drawing a page; the screen needs neither.
    """

    def __init__(self, settle: Callable[[], bool]) -> None:
        """settle: releases it before the first change; whether the values shown are still these."""
        self.is_held = True
        self.settle = settle
        self._previewed: Path | None = None
        super().__init__()

    def preview(self, path: Path) -> None:
        """Show the values of a config file, which `release` loads.

        Raises:
            UserError: If the file cannot be read.
        """
        self._before = self.document, self.base, self.origin
        self._with = self._edits, self.variants, self._base_as_chosen
        document, origin = preset_fields.open_config(path, None, self.value, is_checked=False)
        self._previewed = path
        self.origin, self._edits = origin, {}
        self.base = self.document = document
        self._loaded()

    def release(self) -> list[str]:
        """Check the values from now on, and load the file that is previewed.

        Returns:
            The user's changed settings that the file has replaced; `undo` restores them.

        Raises:
            UserError: If the file holds invalid values; those of before are shown then.
        """
        path, self._previewed = self._previewed, None
        was_held, self.is_held = self.is_held, False
        if path is not None:
            self.document, self.base, self.origin = self._before
            self._edits, self.variants, self._base_as_chosen = self._with
            try:
                return super().load(path)
            except UserError:
                self._loaded()
                raise
        if was_held:
            self._changed()
        return []

    set, set_all = _settled(Draft.set), _settled(Draft.set_all)
    reset, reset_all = _settled(Draft.reset), _settled(Draft.reset_all)
    undo, redo = _settled(Draft.undo), _settled(Draft.redo)

    def load(self, path: Path, *, preset: Preset | None = None) -> list[str]:
        """Load a config file, whatever became of the one that is previewed."""
        self.settle()
        return super().load(path, preset=preset)

    def begin(self, new: Preset, answers: Mapping[str, object], *, kept: Collection[str]) -> None:
        """Begin anew, whatever became of the file that is previewed."""
        self.settle()
        super().begin(new, answers, kept=kept)

    @property
    def is_startable(self) -> bool:
        """Whether nothing known prevents a start."""
        return all(map(self.value, REQUIRED)) if self.is_held else super().is_startable

    def _check(self) -> ValueCheck:
        return ValueCheck() if self.is_held else super()._check()
