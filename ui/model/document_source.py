"""Where a draft's values were loaded from, and what a change can be taken back to. No Tk."""

from dataclasses import dataclass
from pathlib import Path

from onetrainer.json_file import Document


@dataclass(frozen=True)
class Source:
    """Where the values were loaded from.

    path: None for none. is_own: whether it can be saved over. leaves: the person's settings that it
    says nothing of.
    """

    name: str = ""
    path: Path | None = None
    can_overwrite: bool = False
    description: str = ""
    user_settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class UndoStep:
    """What a change can be taken back to.

    path: the setting that was changed; "" where there were many. loaded: what had been loaded or
    saved, and from where, if the change was to load something else; None for all other changes.
    """

    document: Document
    path: str
    loaded: tuple[Document, Source] | None = None
