"""Images are flipped, rotated and recolored as their transforms say, and so are their masks."""

import colorsys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from modules.data.images import decode_conditioning
from onetrainer.dataset.buckets import Bucket, CropGeometry, Magnification
from onetrainer.dataset.transforms import ImageTransform
from tests.close import close, near
from tests.each import each
from tests.transforms import color, load_pixels, noise, pixels_of, saved, smooth, transform_of

WHITE, BLACK = 1.0, -1.0


@each(
    ("changes", "axes"),
    [
        ({"flip": True}, [2]),
        ({"flip_vertical": True}, [1]),
        ({"flip": True, "flip_vertical": True}, [1, 2]),
    ],
)
def test_mirrored_image_has_the_mirrored_pixels(tmp_path, changes, axes):
    item = saved(tmp_path, noise((105, 60)))  # 56 × 32, of which 4 go at each side
    plain, mirrored = pixels_of(item, (48, 32)), pixels_of(item, (48, 32), **changes)
    assert not torch.equal(mirrored, plain)
    torch.testing.assert_close(mirrored, plain.flip(axes), rtol=0, atol=1.01 / 127.5)


def test_the_crop_is_counted_in_the_flipped_image(tmp_path):
    image = Image.new("RGB", (48, 16), "black")
    image.paste("white", (0, 0, 16, 16))
    item = saved(tmp_path, image)
    for flip, left in [(False, 0), (True, 32)]:
        transform = ImageTransform(CropGeometry(48, 16, left, 0, Bucket(16, 16)), flip=flip)
        assert load_pixels(item, transform).eq(WHITE).all()


@each("angle", [-45, 0.01, 20])
@each("size", [(64, 64), (50, 200)])
@each("bucket", [(64, 64), (128, 32)])
def test_turned_image_has_no_empty_corners(tmp_path, angle, size, bucket):
    item = saved(tmp_path, Image.new("RGB", size, "white"))
    assert pixels_of(item, bucket, Magnification(1, angle)).eq(WHITE).all()


@each(("angle", "bucket"), [(-30, (64, 64)), (10, (96, 40)), (45, (96, 40))])
def test_turned_image_is_what_pillow_turns_about_the_middle(tmp_path, angle, bucket):
    item = saved(tmp_path, smooth((150, 90)))
    transform = transform_of((150, 90), bucket, Magnification(1.1, angle))
    cut = transform.geometry
    middle = (cut.left + bucket[0] / 2, cut.top + bucket[1] / 2)
    scaled = Image.open(item.path).resize((cut.width, cut.height), Image.Resampling.LANCZOS)
    turned = scaled.rotate(angle, Image.Resampling.BICUBIC, center=middle).crop(cut.box)
    expected = torch.from_numpy(np.array(turned)).permute(2, 0, 1) / 127.5 - 1
    torch.testing.assert_close(load_pixels(item, transform), expected, rtol=0, atol=1.01 / 127.5)


def test_positive_angles_turn_against_the_clock(tmp_path):
    image = Image.new("RGB", (64, 64), "black")
    image.paste("white", (32, 28, 64, 36))  # a hand that points to the right: 3 o'clock
    pixels = pixels_of(saved(tmp_path, image), (32, 32), Magnification(1, 40))
    right, above = pixels[:, 16, 30], pixels[:, 6, 28]
    assert right.max() < -0.9
    assert above.min() > 0.9


@each(
    ("changes", "before", "after"),
    [
        ({"brightness": 0.5}, (100, 20, 0), (150, 30, 0)),
        ({"brightness": -0.5}, (100, 20, 255), (50, 10, 127.5)),
        ({"brightness": 1.0}, (200, 20, 0), (255, 40, 0)),
        ({"contrast": 0.5}, (67, 127, 187), (36.75, 126.75, 216.75)),
        ({"contrast": -1.0}, (0, 200, 255), (127.5, 127.5, 127.5)),
        # 0.299 · 100 + 0.587 · 200 + 0.114 · 0 = 147.3
        ({"saturation": -1.0}, (100, 200, 0), (147.3, 147.3, 147.3)),
        ({"saturation": 0.5}, (100, 200, 100), (70.65, 220.65, 70.65)),  # gray 158.7
        ({"hue": 120}, (255, 0, 0), (0, 255, 0)),
        ({"hue": -60}, (255, 0, 0), (255, 0, 255)),
        ({"hue": 180}, (200, 100, 100), (100, 200, 200)),
        ({"hue": 77}, (90, 90, 90), (90, 90, 90)),
        # 0.5 · (1.5 · 200 - 127.5) + 127.5: what is above 255 meanwhile is not cut off
        ({"brightness": 0.5, "contrast": -0.5}, (200, 200, 200), (213.75, 213.75, 213.75)),
    ],
)
def test_colors_change_as_worked_out_by_hand(tmp_path, changes, before, after):
    pixels = pixels_of(saved(tmp_path, Image.new("RGB", (16, 16), before)), **changes)
    assert color(pixels, 5, 5) == pytest.approx(after, abs=0.01)


@each("degrees", [-180, -33, 95])
def test_hue_turns_as_colorsys_has_it(tmp_path, degrees):
    image = noise((16, 16), seed=degrees % 360)
    turned = pixels_of(saved(tmp_path, image), hue=degrees)
    for x in range(16):
        hue, saturation, value = colorsys.rgb_to_hsv(
            *(part / 255 for part in image.getpixel((x, 3)))
        )
        expected = colorsys.hsv_to_rgb((hue + degrees / 360) % 1, saturation, value)
        assert ((turned[:, 3, x] + 1) / 2).tolist() == near(expected)


def test_sixteen_bit_gray_is_recolored_like_eight_bit(tmp_path):
    gray = smooth((16, 16)).convert("L")
    shown = []
    for image in (gray, Image.fromarray(np.asarray(gray).astype(np.uint16) * 257)):
        shown.append(pixels_of(saved(tmp_path, image), contrast=0.3, hue=30, saturation=0.2))
    close(*shown)


ALL = {"flip": True, "flip_vertical": True, "contrast": 0.3, "saturation": -0.4, "hue": 50}


@each("turn", [1, 6])
def test_conditioning_image_that_is_the_image_is_shown_alike(tmp_path, turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    item = saved(tmp_path, noise((90, 60)), exif=exif)
    size = (60, 90) if turn == 6 else (90, 60)
    item = replace(item, width=size[0], height=size[1], conditioning=item.path)
    transform = transform_of(size, (48, 32), Magnification(1.2, 12), **ALL)
    with item.path.open("rb") as file:
        conditioning = decode_conditioning(item, transform, file)
    assert torch.equal(conditioning, load_pixels(item, transform))


def test_conditioning_image_of_another_size_lies_over_its_image(tmp_path):
    image = smooth((240, 160))
    image.resize((120, 90), Image.Resampling.BICUBIC).save(tmp_path / "a-condlabel.png")
    item = replace(saved(tmp_path, image), conditioning=tmp_path / "a-condlabel.png")
    transform = transform_of((240, 160), (64, 64), Magnification(1.2, 12), **ALL)
    with item.conditioning.open("rb") as file:
        conditioning = decode_conditioning(item, transform, file)
    torch.testing.assert_close(conditioning, load_pixels(item, transform), rtol=0, atol=0.06)
