"""One image with its captions, and the header of a file that is known already."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onetrainer.captions.choices import brace_fault
from onetrainer.concepts.concepts import PRIOR_ROLES, ConceptSettings
from onetrainer.config.data.concept import Role
from onetrainer.images.findings import printable
from onetrainer.images.header import Header, read_header


@dataclass(frozen=True, slots=True)
class Item:
    """An image with its captions.

    Attributes:
        captions: alternative captions as written; ("",) if there is none.
        width: in pixels, upright (after EXIF rotation).
        height: in pixels, upright.
        mask: file of the loss mask, equal to path if it is the alpha channel; None without a mask.
        conditioning: file of the image that the model sees as a condition, if there is one.
        concept: index of its concept in the dataset.
        group: folder below the concept's folder, "" for that itself.
        name: path below the concept's folder, with "/" and NFC on every system. It seeds all
            random choices about the image.
        focus: center of the crop as fractions of width and height, if a caption list gives it.
    """

    path: Path
    captions: tuple[str, ...]
    width: int
    height: int
    mask: Path | None = None
    conditioning: Path | None = None
    role: Role = "train"
    concept: int = 0
    group: str = ""
    name: str = ""
    focus: tuple[float, float] | None = None

    @property
    def caption(self) -> str:
        """The first caption; "" if there is none."""
        return self.captions[0]

    @property
    def is_prior(self) -> bool:
        """Whether the image is for prior preservation."""
        return self.role in PRIOR_ROLES


@dataclass(frozen=True, slots=True)
class Skipped:
    """An image or folder that is skipped, and the reason as text."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    @property
    def described(self) -> str:
        """It among several in a sentence: "a.png (its end is missing)"."""
        return f"{self.name} ({self.reason})"

    @property
    def name(self) -> str:
        """The file name, printable in every terminal."""
        return printable(self.path.name.encode(errors="replace").decode())


class HeaderCache(Protocol):
    """A cache of image headers, so that unchanged files need not be read again."""

    def cached_header(self, path: Path) -> Header | None:
        """Return the cached header of a file; None if it must be read."""
        ...

    def store_header(self, path: Path, header: Header) -> None:
        """Store a header that was just read."""
        ...


def is_uncaptioned(item: Item, concept: ConceptSettings) -> bool:
    """Return whether an image has no caption although one is expected."""
    return not any(item.captions) and not concept.uses_trigger_only


def wildcard_fault(item: Item, concept: ConceptSettings) -> str:
    """Return why wildcards of a caption cannot be resolved, so that braces are trained; or ""."""
    if not concept.captions.wildcards:
        return ""
    return next(filter(None, map(brace_fault, item.captions)), "")


def counted_images(some: int, count: int) -> str:
    """Return the beginning of a message about missing files: "1 of 15 images has"."""
    noun = "image" if count == 1 else "images"
    return f"{some} of {count} {noun} {'has' if some == 1 else 'have'}"


def has_same_aspect(companion: Header, item: Item) -> bool:
    """Return whether a mask is a scaled version of an image, up to a pixel of rounding."""
    across = abs(companion.width * item.height - item.width * companion.height)
    return across <= max(item.width, item.height, companion.width, companion.height)


def known_header(path: Path, headers: HeaderCache | None) -> Header:
    """Return the header of a file, read if it is not known. Raises ImageError."""
    cached = headers.cached_header(path) if headers is not None else None
    if cached is not None:
        return cached
    header = read_header(path)
    if headers is not None:
        headers.store_header(path, header)
    return header
