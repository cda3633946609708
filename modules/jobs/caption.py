"""The job that describes images with a model: into the results of its folder, never into theirs."""

import hashlib
import io
from collections.abc import Sequence
from time import monotonic

from PIL import Image

from modules.captioning.describer import Describer, Found
from modules.captioning.load import load_describer
from modules.memory.precision import choose_device
from onetrainer.captioning.results import JobFolder, Result, stamp_of
from onetrainer.concepts.folder_listing import FolderImage
from onetrainer.files.atomic import replace_file
from onetrainer.images.decoding import decoding
from onetrainer.images.features import as_rgb
from onetrainer.images.image_file import (
    ImageError,
    apply_orientation,
    open_image,
    orientation,
)
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.messages.formatting import counted
from onetrainer.run.events import Finished, Phase, Report

_SECONDS_BETWEEN_REPORTS = 0.2


def caption(request: CaptionRequest, report: Report) -> Finished:
    """Describe the images that have no result yet.

    An interrupted job keeps what it has found, and goes on there.

    Raises:
        UserError: If the folder or the model cannot be used.
    """
    folder = JobFolder(request)
    listed = len(folder.listed())
    missing = folder.missing()
    done = listed - len(missing)
    with folder.adding() as results:
        failed = 0
        if missing:
            device = choose_device(request.device)
            model = load_describer(
                request, device, lambda detail: report(Phase("loading", detail=detail))
            )
            tell = _Teller(report, done, listed)
            for start in range(0, len(missing), request.batch_size):
                tell(done + start)
                batch = missing[start : start + request.batch_size]
                found = _describe(model, batch, folder)
                failed += sum(bool(result.error) for result in found)
                results.add(found)
            tell(listed, always=True)
            notes = model.notes
        else:
            notes = ()
    new = f"{counted(listed, 'image')}, {len(missing)} of them described now"
    lines = [f"{new}, {failed} could not be read." if failed else f"{new}."]
    return Finished(listed, [str(folder.results)], [*lines, *notes])


class _Teller:
    """Reports how many images are done, not more often than a person can read."""

    def __init__(self, report: Report, done: int, total: int) -> None:
        self._report, self._total = report, total
        self._told = 0.0
        self(done, always=True)

    def __call__(self, done: int, *, always: bool = False) -> None:
        if always or monotonic() - self._told > _SECONDS_BETWEEN_REPORTS:
            self._told = monotonic()
            self._report(Phase("captioning", done, self._total))


def _describe(model: Describer, batch: Sequence[FolderImage], folder: JobFolder) -> list[Result]:
    """Return a result for each image, of those that cannot be read, too."""
    begun = monotonic()
    stamps = [stamp_of(image.path) for image in batch]
    images = [_read(image) for image in batch]
    readable = [image for image in images if isinstance(image, Image.Image)]
    found = iter(model.describe(readable) if readable else ())
    results = []
    for image, stamp, read in zip(batch, stamps, images, strict=True):
        if isinstance(read, str):
            results.append(Result(image.name, stamp, error=read))
        else:
            seconds = round((monotonic() - begun) / len(batch), 4)
            results.append(_result(next(found), image.name, stamp, seconds, folder))
    return results


def _result(found: Found, name: str, stamp: str, seconds: float, folder: JobFolder) -> Result:
    mask = ""
    if found.mask is not None:
        mask = f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.png"
        # Whole or not at all: results of before may name it, and be read now.
        written = io.BytesIO()
        found.mask.save(written, "PNG")
        replace_file(folder.masks / mask, written.getvalue())
    return Result(
        name, stamp, found.text, found.tags, found.characters, found.rating, mask, seconds=seconds
    )


def _read(image: FolderImage) -> Image.Image | str:
    """Return an image, upright and without transparency, or why it cannot be read."""
    if image.reason:
        return image.reason
    try:
        with (
            image.path.open("rb") as file,
            open_image(file, image.path) as opened,
            decoding(opened, image.path),
        ):
            return apply_orientation(as_rgb(opened), orientation(opened, file))
    except ImageError as error:
        return error.reason
    except OSError as error:
        return error.strerror or "it cannot be read"
