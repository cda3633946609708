"""What the page of images shows, which outlives its widgets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ui.editing.image_list import ImageList


@dataclass(frozen=True)
class Shown:
    """A list of images, those of them that the filter leaves, the selected one, and the panel."""

    images: ImageList = field(default_factory=partial(ImageList, is_complete=False))
    indices: Sequence[int] = ()
    current: int = -1
    tab: str = "caption"
    is_mask: bool = False
