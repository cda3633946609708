"""A quick look at a folder of pictures: how many there are, and the first few. No Tk."""

from dataclasses import dataclass, field
from pathlib import Path

from onetrainer.folder_listing import list_pictures

_FIRST = 12


@dataclass(frozen=True)
class Glance:
    """What was seen. captions: how many pictures have a .txt file of the same name."""

    exists: bool
    pictures: int = 0
    captions: int = 0
    first: list[Path] = field(default_factory=list)


def glance_at(folder: Path, *, deep: bool) -> Glance:
    """Looks into a folder, and into those in it if deep. A folder may be gone or locked."""
    if not folder.is_dir():
        return Glance(exists=False)
    found = [item for item in list_pictures(folder, deep=deep) if not item.reason]
    captions = sum(item.caption is not None for item in found)
    return Glance(True, len(found), captions, [item.path for item in found[:_FIRST]])
