"""A mask lies over its image wherever that is scaled, mirrored, turned and cut."""

import io
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import avg_pool2d

from modules.data.images import decode_conditioning
from modules.data.masks import decode_mask
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.buckets import Magnification
from onetrainer.dataset.items import Item, index_concept
from onetrainer.dataset.transforms import plain_transform
from onetrainer.images.image_file import ImageError
from tests.close import close
from tests.each import each
from tests.transforms import load_pixels, transform_of


def mask_of(path, size, bucket, image):
    """The mask in a file, of an image of a size in a bucket."""
    mask = path / "mask.png"
    image.save(mask)
    item = Item(path / "a.png", ("",), *size, mask)
    return decode_mask(item, transform_of(size, bucket), io.BytesIO(mask.read_bytes()), cell=8)


def indexed(folder, masks):
    """The folder's only image, and its plain view at 64 × 64 or the like."""
    concept = ConceptSettings(
        *("data.folder", "a", folder), resolutions=(64,), require_captions=False, masks=masks
    )
    (item,) = index_concept(concept).items
    return item, plain_transform(item, concept)


def gray(rows):
    return Image.fromarray(np.asarray(rows, np.uint8))


def smooth(width, height, seed=0):
    """An image that changes slowly, so that scaling filters agree about it."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@each("size", [(64, 64), (200, 90), (40, 90)])
def test_mask_that_is_the_image_itself_equals_it_after_the_cut(tmp_path, size):
    for turn, mask_scale in ((1, 1), (3, 0.5), (6, 2), (8, 1)):
        exif = Image.Exif()
        exif[0x0112] = turn
        image = smooth(*size, seed=turn)
        image.save(tmp_path / "a.png", exif=exif)
        scaled = [round(side * mask_scale) for side in size]
        mask = tmp_path / "a-masklabel.png"
        image.resize(scaled, Image.Resampling.BICUBIC).save(mask, exif=exif)
        item, transform = indexed(tmp_path, "files")
        made = decode_mask(item, transform, io.BytesIO(mask.read_bytes()), cell=8)
        shown = (load_pixels(item, transform)[:1] + 1) / 2  # (1, H, W), in [0, 1]
        assert made.shape == (1, transform.bucket.height // 8, transform.bucket.width // 8)
        case = f"orientation {turn}, mask {mask_scale} times as large"
        difference = (made - avg_pool2d(shown, 8)).abs().max()
        assert difference <= 0.02, case


def test_mask_is_the_fraction_of_white_in_every_cell(tmp_path):
    rows = np.zeros((16, 24))
    rows[:8, :8] = 255
    rows[:8, 8:12] = 255
    rows[:4, 16:18] = 255
    rows[8:, :8] = 51
    made = mask_of(tmp_path, (24, 16), (24, 16), gray(rows))
    expected = torch.tensor([[[1, 0.5, 8 / 64], [0.2, 0, 0]]])
    close(made, expected)
    assert made.dtype == torch.float32


@each(("size", "scaled"), [((48, 16), 1), ((144, 48), 3), ((24, 8), 0.5)])
def test_mask_is_cut_and_not_squeezed(tmp_path, size, scaled):
    """Of three squares side by side the middle one is seen; its left half is white."""
    rows = np.zeros((size[1], size[0]))
    rows[:, : size[0] // 2] = 255
    made = mask_of(tmp_path, size, (16, 16), gray(rows))
    if scaled >= 1:
        torch.testing.assert_close(made[0], torch.tensor([[1.0, 0.0]] * 2), rtol=0, atol=0.05)
    assert made[0, :, 0].min() > 0.9 > 0.1 > made[0, :, 1].max()


def test_white_stays_white_and_black_black_at_any_scaling(tmp_path):
    rows = np.zeros((100, 100))
    rows[:, 50:] = 255
    made = mask_of(tmp_path, (100, 100), (64, 64), gray(rows))
    assert made[..., :3].eq(0).all()
    assert made[..., 5:].eq(1).all()


def test_mask_of_another_size_is_stretched_to_its_image(tmp_path):
    made = mask_of(tmp_path, (48, 16), (16, 16), gray([[0, 255, 0]]))
    # Between centers 16 apart the line rises from 0 to 1: in the middle third from 1/2 to 1.
    close(made, torch.full((1, 2, 2), 0.75))


@each(
    "image",
    [
        Image.new("RGB", (16, 16), (51, 51, 51)),
        Image.new("LA", (16, 16), (51, 0)),
        Image.new("RGB", (16, 16), (51, 51, 51)).convert("P"),
        Image.fromarray(np.full((16, 16), 13107, np.uint16)),
    ],
)
def test_every_kind_of_mask_is_read_as_its_gray(tmp_path, image):
    made = mask_of(tmp_path, (16, 16), (16, 16), image)
    close(made, torch.full((1, 2, 2), 0.2))


def test_alpha_of_a_turned_image_is_its_mask(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right: what is on top comes to the right
    image = Image.new("RGBA", (16, 16), (9, 9, 9, 0))
    image.paste((9, 9, 9, 102), (0, 0, 16, 8))
    image.save(tmp_path / "a.png", exif=exif)
    item, _ = indexed(tmp_path, "alpha")
    made = decode_mask(item, transform_of((16, 16)), io.BytesIO(item.path.read_bytes()), cell=8)
    expected = torch.tensor([[[0.0, 0.4], [0.0, 0.4]]])
    close(made, expected)


@each(
    ("decode", "role", "name"),
    [
        (partial(decode_mask, cell=8), "mask", "a-masklabel.png"),
        (decode_conditioning, "conditioning", "a-condlabel.png"),
    ],
)
def test_damaged_companion_is_reported_as_its_images_fault(tmp_path, decode, role, name):
    item = Item(tmp_path / "a.png", ("",), 16, 16, **{role: tmp_path / name})
    with pytest.raises(ImageError) as error:
        decode(item, transform_of((16, 16)), io.BytesIO(b"no image"))
    assert error.value.path == item.path
    assert name in error.value.reason


@each(
    ("zoom", "angle", "flips"),
    [
        (1, 0, (True, False)),
        (1.3, 0, (False, True)),
        (1, 30, (False, False)),
        (1.2, -45, (True, 1)),
    ],
)
def test_mask_goes_through_the_geometry_of_its_image(tmp_path, zoom, angle, flips):
    image = smooth(200, 130)
    image.save(tmp_path / "a.png")
    item = Item(tmp_path / "a.png", ("",), 200, 130, tmp_path / "a-masklabel.png")
    flip, flip_vertical = flips
    magnification = Magnification(zoom, angle)
    transform = transform_of(
        (200, 130), (96, 64), magnification, flip=flip, flip_vertical=flip_vertical
    )
    shown = (load_pixels(item, transform)[:1] + 1) / 2
    with item.path.open("rb") as file:
        made = decode_mask(item, transform, file, cell=8)
    torch.testing.assert_close(made, avg_pool2d(shown, 8), rtol=0, atol=0.01)


def test_turned_white_mask_stays_white_to_the_corners(tmp_path):
    mask = tmp_path / "mask.png"
    Image.new("L", (70, 90), 255).save(mask)
    item = Item(tmp_path / "a.png", ("",), 140, 180, mask)
    transform = transform_of((140, 180), (128, 32), Magnification(1, 45))
    assert decode_mask(item, transform, io.BytesIO(mask.read_bytes()), cell=8).eq(1).all()
