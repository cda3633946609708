"""Masks are painted, filled and undone, and are files as training reads them."""

import io
import random
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from onetrainer.dataset.buckets import Bucket, CropGeometry
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.images.image_file import ImageError
from ui.editing import mask_painting
from ui.editing.mask_painting import (
    IGNORED,
    MAX_SIDE,
    TRAINED,
    MaskPainting,
    connected_area,
    png,
)

MASK = Path("cat-masklabel.png")


def new(size=(64, 48), content=None):
    return MaskPainting(MASK, size, content)


def test_a_stroke_is_as_wide_as_its_brush_and_one_step():
    mask = new()
    for x in (10, 30, 50):
        mask.stroke(x, 24, 5, IGNORED, 1.0)
    mask.end_stroke()
    assert mask.is_changed
    black = {x for x in range(64) if mask.image.getpixel((x, 24)) == IGNORED}
    assert black == set(range(5, 56))
    column = [y for y in range(48) if mask.image.getpixel((30, y)) == IGNORED]
    assert len(column) in (10, 11)
    mask.undo()
    assert mask.image.getextrema() == (TRAINED, TRAINED) and not mask.is_changed
    mask.redo()
    assert mask.image.getpixel((30, 24)) == IGNORED


def test_opacity_is_not_added_up_within_a_stroke_but_is_by_the_next():
    mask = new()
    for _ in range(3):
        mask.stroke(20, 20, 4, IGNORED, 0.5)
        mask.stroke(22, 20, 4, IGNORED, 0.5)
    mask.end_stroke()
    once = mask.image.getpixel((20, 20))
    assert once == pytest.approx(127.5, abs=1)
    mask.stroke(20, 20, 4, IGNORED, 0.5)
    mask.end_stroke()
    assert mask.image.getpixel((20, 20)) == pytest.approx(once / 2, abs=1)


def test_strokes_beside_the_mask_are_cut_or_nothing():
    mask = new()
    mask.stroke(-100, -100, 5, IGNORED, 1.0)
    mask.end_stroke()
    assert not mask.can_undo
    mask.stroke(0, 0, 5, IGNORED, 1.0)
    mask.stroke(500, 0, 5, IGNORED, 1.0)
    mask.end_stroke()
    assert mask.image.getpixel((63, 0)) == IGNORED


def test_a_fill_ends_at_an_outline_and_the_area_is_that_of_pillow():
    mask = new()
    for x, y in ((10, 10), (40, 10), (40, 40), (10, 40), (10, 10)):
        mask.stroke(x, y, 2, IGNORED, 1.0)
    mask.end_stroke()
    mask.fill(25, 25, IGNORED)
    assert mask.image.getpixel((25, 25)) == IGNORED and mask.image.getpixel((60, 25)) == TRAINED
    mask.fill(-1, 3, IGNORED)
    numbers = random.Random(3)
    for _ in range(20):
        noise = Image.frombytes(
            "L", (23, 17), bytes(255 * (numbers.random() < 0.6) for _ in range(391))
        )
        place = numbers.randrange(23), numbers.randrange(17)
        expected = noise.copy()
        if noise.getpixel(place):
            ImageDraw.floodfill(expected, place, 128)
        area = connected_area(noise, place)
        assert area.tobytes() == expected.point([255 * (v == 128) for v in range(256)]).tobytes()


def test_all_of_it_is_filled_inverted_undone_and_forgotten_oldest_first(monkeypatch):
    mask = new()
    mask.fill_all(TRAINED)
    assert not mask.can_undo  # nothing changed
    mask.stroke(5, 5, 3, IGNORED, 1.0)
    mask.end_stroke()
    mask.invert()
    assert mask.image.getpixel((5, 5)) == TRAINED and mask.image.getpixel((50, 5)) == IGNORED
    mask.fill_all(TRAINED)
    for _ in range(3):
        mask.undo()
    assert not mask.can_undo and mask.can_redo and not mask.is_changed
    saved = png(mask.taken())
    monkeypatch.setattr(mask_painting, "_MAX_UNDO_BYTES", 64 * 48 * 4)
    for _ in range(5):
        mask.invert()
    while mask.can_undo:
        mask.undo()
    assert mask.is_changed and saved != png(mask.taken()) and not mask.is_changed


def test_what_was_saved_and_undone_and_painted_over_counts_as_changed():
    mask = new()
    mask.invert()
    png(mask.taken())
    mask.undo()
    assert mask.is_changed
    mask.fill_all(100)
    assert mask.is_changed


def test_a_file_is_read_as_it_is_trained_and_written_so(tmp_path):
    from modules.data.masks import decode_mask

    gradient = Image.linear_gradient("L").resize((48, 32))
    files = {}
    for mode in ("L", "RGB", "1", "I;16"):
        file = io.BytesIO()
        deep = gradient.convert("I").point(lambda value: value * 257).convert("I;16")
        (deep if mode == "I;16" else gradient.convert(mode)).save(file, "PNG")
        files[mode] = file.getvalue()
    whole = ImageTransform(CropGeometry(48, 32, 0, 0, Bucket(48, 32)))
    item = Item(tmp_path / "cat.png", ("",), 48, 32, mask=MASK)
    for mode, content in files.items():
        mask = new((48, 32), content)
        mask.invert()
        mask.undo()
        trained = [
            decode_mask(item, whole, io.BytesIO(data), cell=8)
            for data in (content, png(mask.taken()))
        ]
        assert (trained[0] - trained[1]).abs().max() <= 1 / 255, mode
    with pytest.raises(ImageError):
        new((48, 32), b"no image")


def test_a_new_mask_has_the_size_of_its_image_up_to_a_limit():
    assert new((300, 200)).image.size == (300, 200)
    width, height = new((9000, 3000)).image.size
    assert width == MAX_SIDE and abs(width / height - 3) < 0.01
