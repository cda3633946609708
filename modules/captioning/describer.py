"""What every model that describes images can do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from PIL.Image import Image


@dataclass(frozen=True)
class Found:
    """What a model found in one image; see `Result`. mask: Of the whole image, in any size."""

    text: str = ""
    tags: Mapping[str, float] = field(default_factory=dict)
    characters: Mapping[str, float] = field(default_factory=dict)
    rating: str = ""
    mask: Image | None = None


class Describer(Protocol):
    """A loaded model."""

    @property
    def notes(self) -> Sequence[str]:
        """What a person should know about how it runs."""

    def describe(self, images: Sequence[Image]) -> list[Found]:
        """Return what is found in upright RGB images of any size, in their order."""
