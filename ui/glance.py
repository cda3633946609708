"""A quick look at a folder of pictures: how many there are, and the first few. No Tk."""

from dataclasses import dataclass, field
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.folder_listing import list_pictures

_FIRST = 12


# Only sorts pictures into buckets, which are not looked at here.
_ANY_RESOLUTION = 512


@dataclass(frozen=True)
class Glance:
    """What was seen.

    pictures: how many can be trained with; captions: how many of these have one. unusable: how
    many pictures cannot be read, or are no use. first: some of the pictures that can be used.
    """

    exists: bool
    pictures: int = 0
    captions: int = 0
    first: list[Path] = field(default_factory=list)
    unusable: int = 0


def glance_at(folder: Path, *, deep: bool) -> Glance:
    """Looks into a folder, and into those in it if deep. A folder may be gone or locked."""
    # Loaded late: it reads pictures, which a window that only opens does not need.
    from onetrainer.dataset_index import index_folder

    if not folder.is_dir():
        return Glance(exists=False)
    try:
        index = index_folder(
            folder, resolution=_ANY_RESOLUTION, include_subfolders=deep, require_captions=False
        )
    except UserError:  # no picture can be used, which is said in words beside the setting
        return Glance(True, unusable=len(list_pictures(folder, deep=deep)))
    first = [item.path for item in index.items[:_FIRST]]
    captions = len(index.items) - index.uncaptioned
    return Glance(True, len(index.items), captions, first, len(index.skipped))
