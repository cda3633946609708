"""What writing the results of a job would change, before anything is written.

A caption or mask is this program's own if it holds what was last written there; anything else is a
person's, and stays unless they ask otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetrainer.captioning.masks import mask_bytes
from onetrainer.captioning.own_files import OwnFile, OwnFiles, digest
from onetrainer.captioning.results import JobFolder, Result, stamp_of
from onetrainer.captioning.texts import beside_existing, caption_text
from onetrainer.captions.caption_file import decode_text
from onetrainer.captions.caption_text import new_caption_path
from onetrainer.concepts.folder_listing import FolderImage, new_mask_path
from onetrainer.concepts.mask_folder import MaskFolder, RealPaths
from onetrainer.edits.saving import read_content
from onetrainer.images.image_file import ImageError
from onetrainer.jobs.caption_request import CaptionWriting, MaskWriting

Fate = Literal["new", "changed", "same", "kept", "empty", "failed"]
"""new: there is no file yet. changed: this program's own text is replaced, or a person's as they
asked for. same: it holds the same already. kept: a person's. empty: the model found nothing.
failed: the image or the file cannot be read."""
WRITTEN: tuple[Fate, ...] = ("new", "changed")


@dataclass(frozen=True)
class Proposal:
    """What becomes of one image's caption or mask.

    Attributes:
        image: The image.
        fate: What becomes of it.
        path: The caption or mask.
        before: What it holds; None if there is no such file.
        after: What it would hold.
        text: The caption that it would hold, or why it cannot.
        own: What is to be noted before it is written.
    """

    image: FolderImage
    fate: Fate
    path: Path
    before: bytes | None = None
    after: bytes | None = None
    text: str = ""
    own: OwnFile | None = None

    @property
    def text_before(self) -> str:
        """The caption as it is; "" for a mask, and for a file that is no text."""
        return _text(self.before) or ""


def propose(
    job: JobFolder,
    own: OwnFiles,
    writing: CaptionWriting | MaskWriting,
    *,
    makes_masks: bool = True,
) -> Iterator[Proposal]:
    """Yield what becomes of each image of a job that has a result, in their order.

    One that has changed since it was described has none: the job describes it again.

    Args:
        job: Which has found something.
        own: The files that this program wrote.
        writing: How captions or masks are made of it.
        makes_masks: Masks take a while; without them one that another model made, or other
            settings, counts as changed.
    """
    images = job.listed()
    results, taken, path_of = job.read(), dict[Path, str](), _paths(job, images, writing)
    for image in images:
        result = results.get(image.name)
        if result is None or result.stamp != stamp_of(image.path):
            continue
        path = image.path
        try:
            path = path_of(image)
            if result.error:
                raise ImageError(image.path, result.error)
            if path in taken:
                raise ImageError(image.path, f"{taken[path]} has the same name, and so this file")
            taken[path] = image.path.name
            before = read_content(path)
            known = own.get((path, digest(before))) if before is not None else None
            if isinstance(writing, CaptionWriting):
                yield _caption(image, path, before, known, result, writing)
            else:
                found = job.masks / result.mask
                made = digest(f"{found} {result.stamp} {_made_by(writing)}".encode())
                if makes_masks:
                    yield _mask(image, path, before, known, found, writing, made)
                else:
                    yield Proposal(image, _fate_of_mask(before, known, writing, made), path, before)
        except ImageError as error:
            yield Proposal(image, "failed", path, text=error.reason)
        except OSError as error:
            yield Proposal(image, "failed", path, text=error.strerror or str(error))


def _caption(
    image: FolderImage,
    path: Path,
    before: bytes | None,
    known: OwnFile | None,
    result: Result,
    writing: CaptionWriting,
) -> Proposal:
    text = caption_text(result, writing)
    theirs = known.theirs if known else _text(before)
    if theirs is None:
        raise ImageError(image.path, f"{path.name} is no text; save it as UTF-8")
    if theirs and writing.existing == "keep":
        return Proposal(image, "kept", path, before, text=text)
    if not text:
        return Proposal(image, "empty", path, before)
    after = beside_existing(text, theirs, writing.existing) if theirs else text
    content = f"{after}\n".encode()
    fate: Fate = "new" if before is None else "changed"
    if before is not None and _text(before) == after:
        fate, content = "same", before
    left = "" if writing.existing == "replace" else theirs
    own = OwnFile(path, digest(content), left)
    return Proposal(image, fate, path, before, content, after, own)


def _mask(
    image: FolderImage,
    path: Path,
    before: bytes | None,
    known: OwnFile | None,
    found: Path,
    writing: MaskWriting,
    made: str,
) -> Proposal:
    fate = _fate_of_mask(before, known, writing, made)
    if fate == "kept":
        return Proposal(image, "kept", path, before)
    after = mask_bytes(found, image.path, writing)
    if before is not None:
        fate = "same" if before == after else "changed"
    own = OwnFile(path, digest(after), made=made)
    return Proposal(image, fate, path, before, after, own=own)


def _fate_of_mask(
    before: bytes | None, known: OwnFile | None, writing: MaskWriting, made: str
) -> Fate:
    """Return what becomes of a mask, as far as that is known without making it."""
    if before is None:
        return "new"
    if known is None and writing.existing == "keep":
        return "kept"
    return "same" if known is not None and known.made == made else "changed"


def _made_by(writing: MaskWriting) -> str:
    return writing.model_dump_json(exclude={"existing", "mask_folder"})


def _paths(
    job: JobFolder, images: Sequence[FolderImage], writing: CaptionWriting | MaskWriting
) -> Callable[[FolderImage], Path]:
    """Return what tells the caption or mask of an image, which may not exist yet."""
    if isinstance(writing, CaptionWriting):
        return lambda image: image.caption or new_caption_path(image.path)
    if not writing.mask_folder:
        return lambda image: image.mask or new_mask_path(image, None)
    folder = Path(writing.mask_folder).expanduser()
    masks = MaskFolder(folder, recursive=job.request.subfolders)
    sources = RealPaths(image.path for image in images)

    def in_folder(image: FolderImage) -> Path:
        path = masks.path_of(image)
        if path in sources:
            raise ImageError(image.path, "its mask would replace an image: choose a mask folder")
        return path

    return in_folder


def _text(content: bytes | None) -> str | None:
    """Return a caption as it was written; None if it is no text."""
    decoded = decode_text(content or b"")
    return None if decoded is None or "\0" in decoded[0] else decoded[0].strip()
