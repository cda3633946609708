"""Pixels are what a hand computation says, for every odd kind of image."""

import numpy as np
import pytest
import torch
from PIL import Image

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.items import index_concept
from onetrainer.dataset.transformed_image import was_decoded_smaller
from onetrainer.dataset.transforms import plain_transform
from onetrainer.images.image_file import ImageError
from tests.close import close, near
from tests.each import each
from tests.transforms import color, load_pixels, pixels_of, saved, transform_of

WHITE, BLACK = 1.0, -1.0


def indexed(folder):
    concept = ConceptSettings("data.folder", "a", folder, resolutions=(64,), require_captions=False)
    (item,) = index_concept(concept).items
    return item, plain_transform(item, concept)


def test_pixels_are_float32_contiguous_from_minus_one_to_one(tmp_path):
    image = Image.new("RGB", (24, 16), (0, 51, 255))
    pixels = pixels_of(saved(tmp_path, image))
    assert (pixels.shape, pixels.dtype) == ((3, 16, 24), torch.float32)
    assert pixels.is_contiguous()
    assert pixels[:, 3, 5].tolist() == near([-1.0, 51 / 127.5 - 1, 1.0])
    assert pixels[0].eq(BLACK).all()
    assert pixels[2].eq(WHITE).all()


# What each orientation means is said here with numpy, from the standard's table of where the
# stored image's first row and column are seen.
STORED = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.transpose(1, 0, 2),
    6: lambda upright: np.rot90(upright),
    7: lambda upright: upright[::-1, ::-1].transpose(1, 0, 2),
    8: lambda upright: np.rot90(upright, -1),
}


@each("turn", STORED)
@each("suffix", ["png", "tif"])
def test_exif_rotation_is_undone(tmp_path, turn, suffix):
    upright = np.random.default_rng(turn).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = turn
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(np.ascontiguousarray(STORED[turn](upright))).save(path, exif=exif)
    item, _ = indexed(tmp_path)
    assert (item.width, item.height) == (24, 16)
    pixels = pixels_of(item)
    expected = torch.from_numpy(upright.copy()).permute(2, 0, 1) / 127.5 - 1
    close(pixels, expected)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data:UserWarning")
def test_damaged_exif_is_passed_over(tmp_path):
    image = Image.new("RGB", (16, 16), "red")
    item = saved(tmp_path, image, exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert color(pixels_of(item)) == [255, 0, 0]


@each(("alpha", "expected"), [(0, [255, 255, 255]), (255, [255, 0, 0]), (51, [255, 204, 204])])
def test_transparency_shows_white_behind(tmp_path, alpha, expected):
    image = Image.new("RGBA", (16, 16), (255, 0, 0, alpha))
    assert color(pixels_of(saved(tmp_path, image))) == expected


def palette_image():
    image = Image.new("P", (16, 16), 1)
    image.putpalette([0, 0, 255, 10, 20, 30])
    image.putpixel((0, 0), 0)
    return image


@each("suffix", ["png", "gif"])
def test_palette_indices_become_their_colors(tmp_path, suffix):
    pixels = pixels_of(saved(tmp_path, palette_image(), suffix))
    assert color(pixels) == [0, 0, 255]
    assert color(pixels, 1) == [10, 20, 30]


@each(
    ("suffix", "transparency"), [("png", 0), ("gif", 0), ("png", b"\x00\xff"), ("png", b"\x33\xff")]
)
def test_palette_transparency_shows_white_behind(tmp_path, suffix, transparency):
    pixels = pixels_of(saved(tmp_path, palette_image(), suffix, transparency=transparency))
    behind = 204 if transparency == b"\x33\xff" else 255
    assert color(pixels) == [behind, behind, 255]
    assert color(pixels, 1) == [10, 20, 30]


def test_gray_and_one_bit_images_have_three_equal_channels(tmp_path):
    assert color(pixels_of(saved(tmp_path, Image.new("L", (16, 16), 77)))) == [77, 77, 77]
    assert color(pixels_of(saved(tmp_path, Image.new("1", (16, 16), 1)))) == [255, 255, 255]


def test_cmyk_is_mixed(tmp_path):
    # (1 - 0.4)(1 - 0.2), (1 - 0)(1 - 0.2), (1 - 1)(1 - 0.2), times 255
    image = Image.new("CMYK", (16, 16), (102, 0, 255, 51))
    assert color(pixels_of(saved(tmp_path, image, "tif"))) == pytest.approx([122, 204, 0], abs=1)
    jpeg = pixels_of(saved(tmp_path, image, "jpg", quality=100))
    assert color(jpeg) == pytest.approx([122, 204, 0], abs=4)


@each(("suffix", "value"), [("png", 0), ("tif", 256), ("png", 32768), ("tif", 65535)])
def test_sixteen_bit_gray_is_scaled_and_not_clipped(tmp_path, suffix, value):
    image = Image.fromarray(np.full((16, 16), value, np.uint16))
    pixels = pixels_of(saved(tmp_path, image, suffix))
    assert pixels.shape == (3, 16, 16)
    assert color(pixels) == pytest.approx([value / 257] * 3, abs=0.001)


def test_sixteen_bit_gray_is_scaled_like_eight_bit(tmp_path):
    stripes = np.zeros((40, 40), np.uint8)
    stripes[:, ::4] = 255
    shown = []
    for image in (Image.fromarray(stripes), Image.fromarray(stripes.astype(np.uint16) * 257)):
        shown.append(pixels_of(saved(tmp_path, image), bucket=(56, 56)))
    torch.testing.assert_close(*shown, rtol=0, atol=1 / 127.5)  # what rounding to 8 bits costs
    assert shown[1].min() == BLACK


def test_first_frame_of_an_animation_is_taken(tmp_path):
    time_ids = [Image.new("RGB", (16, 16), name) for name in ("red", "green", "blue")]
    for suffix, options in [("gif", {}), ("webp", {"lossless": True}), ("png", {})]:
        item = saved(
            tmp_path, time_ids[0], suffix, save_all=True, append_images=time_ids[1:], **options
        )
        assert color(pixels_of(item)) == [255, 0, 0]


def test_fine_lines_of_a_jpeg_are_those_of_a_png_of_the_same_image(tmp_path):
    lines = (np.indices((1024, 1024)).sum(0) // 3 % 2 * 255).astype(np.uint8)
    jpeg = saved(tmp_path, Image.fromarray(lines).convert("RGB"), "jpg", quality=95)
    with Image.open(jpeg.path) as image:
        png = saved(tmp_path, image.convert("RGB"), "png")
    assert pixels_of(jpeg, bucket=(128, 128)).equal(pixels_of(png, bucket=(128, 128)))


def test_what_earlier_versions_decoded_otherwise_is_encoded_again(tmp_path):
    item = saved(tmp_path, Image.new("RGB", (1024, 512)))
    for side, is_other in ((128, True), (192, False)):
        transform = transform_of((1024, 512), bucket=(2 * side, side))
        assert was_decoded_smaller(item, transform) == is_other


@each("turn", [1, 6])
def test_large_jpeg_is_nearly_what_full_decoding_gives(tmp_path, turn):
    smooth = Image.effect_noise((30, 20), 60).resize((1200, 800), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = turn
    smooth.convert("RGB").save(tmp_path / "a.jpg", quality=95, exif=exif)
    item, transform = indexed(tmp_path)
    pixels = load_pixels(item, transform)
    image = Image.open(tmp_path / "a.jpg").convert("RGB")
    image = image.transpose(Image.Transpose.ROTATE_270) if turn == 6 else image
    width, height = transform.bucket.width, transform.bucket.height
    scale = max(width / image.width, height / image.height)
    image = image.resize((round(image.width * scale), round(image.height * scale)), 1)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    image = image.crop((left, top, left + width, top + height))
    expected = torch.from_numpy(np.array(image)).permute(2, 0, 1) / 127.5 - 1
    assert (pixels - expected).abs().mean() < 1 / 127.5


@each("suffix", ["png", "jpg", "webp", "bmp", "gif", "tif", "avif"])
def test_cut_off_pixels_are_an_image_error(tmp_path, suffix):
    item = saved(tmp_path, Image.effect_noise((64, 64), 90).convert("RGB"), suffix)
    whole = item.path.read_bytes()
    item.path.write_bytes(whole[: len(whole) * 6 // 10])
    with pytest.raises(ImageError) as error:
        pixels_of(item)
    assert error.value.path == item.path
    assert error.value.reason


def test_changed_image_is_an_image_error(tmp_path):
    item = saved(tmp_path, Image.new("RGB", (16, 16)))
    Image.new("RGB", (32, 16)).save(item.path)
    with pytest.raises(ImageError, match="changed"):
        pixels_of(item)
