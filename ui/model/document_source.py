"""Source of a draft's values, and the steps that undo returns to."""

from dataclasses import dataclass
from pathlib import Path

from onetrainer.json_file import Document


@dataclass(frozen=True)
class Source:
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


@dataclass(frozen=True)
class UndoStep:
    """State that undo restores.

    Attributes:
        path: Changed setting; "" if several changed.
        loaded: Base and source before another config was loaded; None for all other changes.
    """

    document: Document
    path: str
    loaded: tuple[Document, Source] | None = None
