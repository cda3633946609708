"""Headers of odd and damaged files: size, orientation and transparency as Pillow shows them."""

import random
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin

from onetrainer.images.header import Header, read_header
from onetrainer.images.image_file import ImageError
from tests.each import each

SIZE = (48, 32)


def exif(turn, maker="maker"):
    block = Image.Exif()
    block[0x010F] = maker
    if turn is not None:
        block[0x0112] = turn
    return block


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def text(key, value):
    made = PngImagePlugin.PngInfo()
    made.add_itxt(key, value) if value.startswith("<") else made.add_text(key, value)
    return {"pnginfo": made}


XMP = '<x:xmpmeta tiff:Orientation="6"></x:xmpmeta>'
IMAGES = {
    **{f"exif-{turn}.{suffix}": ("RGB", {"exif": exif(turn)})
       for turn in (None, 0, 1, 3, 6, 8, 9) for suffix in ("jpg", "png", "webp")},
    "exif-7.avif": ("RGB", {"exif": exif(7)}),
    **{f"{mode}.png": (mode, {}) for mode in ("1", "L", "P", "RGB", "RGBA", "LA", "I;16")},
    **{f"{mode}.jpg": (mode, {}) for mode in ("L", "RGB", "CMYK")},
    **{f"{mode}-through.png": (mode, {"transparency": value}) for mode, value in
       {"1": 0, "L": 7, "P": 3, "RGB": (1, 2, 3), "I;16": 5}.items()},
    "palette.png": ("P", {"transparency": b"\x00\x80\xff"}),
    "progressive.jpg": ("RGB", {"progressive": True, "icc_profile": b"x" * 70_000}),
    "comment.jpg": ("RGB", {"comment": b"a comment", "dpi": (72, 72)}),
    "xmp.jpg": ("RGB", {"xmp": XMP.encode()}),
    "both.jpg": ("RGB", {"exif": exif(3), "xmp": XMP.encode()}),
    "long exif.jpg": ("RGB", {"exif": exif(6, "m" * 5000)}),
    "text.png": ("RGB", text("parameters", "a cat, " * 3000)),
    "named text.png": ("RGB", text("transparency", "1")),
    "xmp.png": ("RGB", text("XML:com.adobe.xmp", XMP)),
    "icc.png": ("RGB", {"icc_profile": b"profile" * 99, "gamma": 2.2, "dpi": (72, 72)}),
    "lossless.webp": ("RGB", {"lossless": True}),
    "lossless-through.webp": ("RGBA", {"lossless": True}),
    "through.webp": ("RGBA", {}),
    "icc.webp": ("RGB", {"icc_profile": b"profile" * 99}),
    "xmp.webp": ("RGB", {"xmp": XMP.encode()}),
    "moving.webp": ("RGB", {"save_all": True, "append_images": [Image.new("RGB", SIZE, "red")]}),
    "moving.png": ("RGB", {"save_all": True, "append_images": [Image.new("RGB", SIZE, "red")]}),
    "several.jpg": ("RGB", {"format": "MPO", "save_all": True,
                            "append_images": [Image.new("RGB", SIZE, "red")]}),
    **{f"other.{suffix}": ("RGB", {}) for suffix in ("gif", "bmp", "tif", "avif")},
}  # fmt: skip


def save(folder, name):
    mode, options = IMAGES[name]
    shape = (SIZE[1], SIZE[0], 4)
    pixels = Image.fromarray(np.random.default_rng(0).integers(1, 255, shape, dtype=np.uint8))
    if mode == "RGBA":  # some of it shows through, or WebP leaves the alpha channel out
        pixels.convert("RGBA").save(folder / name, **options)
    else:
        image = Image.new(mode, SIZE) if mode == "I;16" else pixels.convert("RGB").convert(mode)
        image.save(folder / name, **options)
    return folder / name


@each("name", IMAGES)
def test_header_is_what_the_decoded_image_has(tmp_path, name):
    path = save(tmp_path, name)
    with Image.open(path) as image:
        is_clear = image.has_transparency_data and image.mode != "I;16"
        expected = ImageOps.exif_transpose(image).size
    assert read_header(path) == Header(*expected, is_clear)


@each("attempts", [4])
@each("name", IMAGES)
def test_damaged_file_has_a_header_or_a_reason(tmp_path, name, attempts):
    """Every beginning of a file, and single bytes changed."""
    path = save(tmp_path, name)
    whole, dice = path.read_bytes(), random.Random(name)
    for _ in range(attempts):
        damaged = bytearray(whole[: dice.randrange(1, len(whole) + 1)])
        damaged[dice.randrange(min(len(damaged), 700))] = dice.randrange(256)
        path.write_bytes(damaged)
        try:
            assert read_header(path).width > 0
        except ImageError as error:
            assert error.reason


@each("side", [32, 400])
@each("length", [1 << 16, 1 << 10])
def test_exif_behind_a_pngs_pixels_is_not_overlooked(tmp_path, side, length):
    """Of small and large files, whose pixels are in few or many pieces."""
    pixels = zlib.compress(np.random.default_rng(0).bytes(side * (3 * side + 1)))
    pieces = [pixels[place : place + length] for place in range(0, len(pixels), length)]
    header = struct.pack(">IIBBBBB", side, side // 2, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", header), *(chunk(b"IDAT", piece) for piece in pieces)]
    end, late = chunk(b"IEND", b""), chunk(b"eXIf", exif(6).tobytes()[6:])
    for tail in ([end], [late, end], [end, late]):
        path = tmp_path / "a.png"
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join([*parts, *tail]))
        size = (side // 2, side) if late in tail else (side, side // 2)
        assert read_header(path) == Header(*size, has_alpha=False)
