"""The draft of a window that opens: its values are shown first, and checked then."""

from collections.abc import Mapping
from pathlib import Path

from onetrainer.errors import UserError
from ui.model import preset_fields
from ui.model.draft import REQUIRED, Draft
from ui.model.value_check import ValueCheck


class HeldDraft(Draft):
    """Draft that is not checked, and has no problems, until `release` or its first change.

    The first check builds the schema of the whole config and imports every rule, which takes longer
    than drawing a page; the screen needs neither.
    """

    def __init__(self) -> None:
        self.is_held = True
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
                return self.load(path)
            except UserError:
                self._loaded()
                raise
        if was_held:
            self._changed()
        return []

    def set(self, path: str, value: object) -> None:
        """Change one setting."""
        self.release()
        super().set(path, value)

    def set_all(self, values: Mapping[str, object]) -> None:
        """Change several settings as one undo step."""
        self.release()
        super().set_all(values)

    @property
    def is_startable(self) -> bool:
        """Whether nothing known prevents a start."""
        return all(map(self.value, REQUIRED)) if self.is_held else super().is_startable

    def _check(self) -> ValueCheck:
        return ValueCheck() if self.is_held else super()._check()
