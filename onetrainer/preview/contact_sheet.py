"""Thumbnails of images as they are trained, and contact sheets of them.

Pillow and numpy are imported on first use, so that importing this module is cheap.
"""

from collections.abc import Callable
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.items import Item
from onetrainer.dataset.transformed_image import DEEP_WHITE, adjust_colors, load_transformed
from onetrainer.dataset.transforms import ImageTransform, cropped_fraction, image_transform
from onetrainer.errors import UserError
from onetrainer.files.names import require_portable
from onetrainer.images.findings import printable
from onetrainer.images.image_file import ImageError
from onetrainer.preview.dataset_preview import DatasetPreview

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PER_SHEET = 60
COLUMNS = 6
SIDE = 192
"""Longer side of a thumbnail in pixels."""
LABEL = 18
GAP = 8
_MAX_CHARACTERS = 28
"""Characters of a name that fit below a thumbnail."""
_VISIBLE = 0.005
_WHITE = 255
_PAPER, _INK = (250, 250, 250), (40, 40, 40)
_QUALITY = 88


def thumbnail(item: Item, transform: ImageTransform, size: int) -> "Image":
    """Return an image as a transform shows it, as "RGB" with a longer side of at most size pixels.

    Raises:
        ImageError: the file cannot be read, or its size has changed since it was indexed.
    """
    try:
        with item.path.open("rb") as file:
            image = load_transformed(item, transform, file)
    except OSError as error:
        raise ImageError(item.path, f"cannot be read ({error.strerror})") from error
    if image.mode == "F" or transform.is_recolored:
        image = _plain_colors(image, transform)
    image.thumbnail((size, size))
    return image


def write_sheets(
    plan: DatasetPreview, folder: Path, *, progress: Callable[[int, int], None] = lambda *_: None
) -> list[Path]:
    """Write a contact sheet for each bucket with the most cropped images and their names.

    Calls progress with (done, total). Raises UserError as `check_folder`.
    """
    check_folder(folder, plan)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for index, bucket_preview in enumerate(plan.buckets):
        progress(index, len(plan.buckets))
        path = folder / f"{bucket_preview.bucket.width}x{bucket_preview.bucket.height}.jpg"
        _draw_sheet(plan, bucket_preview.bucket).save(path, quality=_QUALITY)
        paths.append(path)
    return paths


def check_folder(folder: Path, plan: DatasetPreview) -> None:
    """Raise UserError unless a folder is new or empty, and outside of image folders."""
    require_portable(folder)
    expected = "Expected a new or empty folder"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "is a file" if not folder.is_dir() else "is not empty"
        raise UserError(f"{folder} {what}", expected, "Choose another one")
    index = folder.absolute().resolve()
    for concept in plan.dataset.concepts:
        own = concept.folder.resolve()
        if own == index or own in index.parents:
            raise UserError(
                f"{folder} is inside an image folder ({concept.folder})",
                "The sheets would be used as training images",
                "Choose one outside of it",
            )


def _plain_colors(image: "Image", transform: ImageTransform) -> "Image":
    """Return an image with its colors changed, in 8 bits; takes numpy, which most do without."""
    import numpy as np
    from PIL import Image

    if image.mode == "F":
        gray = np.asarray(image).clip(0, DEEP_WHITE) * (_WHITE / DEEP_WHITE)
        image = Image.fromarray(gray.round().astype(np.uint8)).convert("RGB")
    if transform.is_recolored:
        colors = np.asarray(image).transpose(2, 0, 1).astype(np.float32) / np.float32(_WHITE)
        values = adjust_colors(colors, transform).transpose(1, 2, 0) * _WHITE
        image = Image.fromarray(values.round().astype(np.uint8))
    return image


def _draw_sheet(plan: DatasetPreview, bucket: Bucket) -> "Image":
    """Draw the images of a bucket, the most cropped first, each with its name below."""
    from PIL import Image, ImageDraw

    concepts = plan.dataset.concepts
    entries = [
        (item, image_transform(item, concepts[item.concept], number))
        for item, number in plan.images_of(bucket)
    ]
    images = nlargest(MAX_PER_SHEET, entries, key=lambda entry: cropped_fraction(*entry))
    scale = min(1.0, SIDE / max(bucket.width, bucket.height))
    wide, high = SIDE + GAP, round(bucket.height * scale) + LABEL + GAP
    columns = min(COLUMNS, len(images))
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (columns * wide + GAP, rows * high + GAP), _PAPER)
    canvas = ImageDraw.Draw(sheet)
    for index, (item, own) in enumerate(images):
        left, top = GAP + index % columns * wide, GAP + index // columns * high
        try:
            sheet.paste(thumbnail(item, own, SIDE), (left, top))
        except ImageError as error:
            canvas.text((left, top), error.reason[:_MAX_CHARACTERS], fill=_INK)
        # A unique name: the path below the folder, after its name if there are several.
        name = f"{concepts[item.concept].name}/{item.name}" if len(concepts) > 1 else item.name
        label = _label(printable(name), cropped_fraction(item, own))
        canvas.text((left, top + high - LABEL - GAP + 2), label, fill=_INK)
    return sheet


def _label(name: str, fraction: float) -> str:
    """Return a name, shortened at its beginning, and how much of the image is cropped."""
    suffix = f" -{fraction:.0%}" if fraction >= _VISIBLE else ""
    room = _MAX_CHARACTERS - len(suffix)
    return (name if len(name) <= room else f"…{name[1 - room :]}") + suffix
