"""What the page of images shows, which outlives its widgets."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial

from ui.editing.image_list import ImageList


@dataclass(frozen=True)
class Shown:
    """A list of images, those of them that the filter leaves, and the tab of the panels.

    current: Index of the selected image in the list. marks: Places of the marked ones in `indices`.
    """

    images: ImageList = field(default_factory=partial(ImageList, is_complete=False))
    indices: Sequence[int] = ()
    current: int = -1
    marks: AbstractSet[int] = frozenset()
    tab: str = "caption"
    is_mask: bool = False
