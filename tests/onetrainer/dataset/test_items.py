"""Indexing lists what is trained on, and names everything that is left out."""

import os
import random
import re
import struct
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from onetrainer.concepts.concepts import ConceptSettings, concepts_of
from onetrainer.concepts.folder_listing import NAMELESS
from onetrainer.config.fields import settings
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.items import index_concept
from onetrainer.errors import UserError
from onetrainer.images.image_file import MAX_PIXELS, ImageError, open_image
from tests.each import each

ORIENTATION = 0x0112


def save(path, size=(64, 64), mode="RGB", caption="a thing", **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path, **options)
    if caption is not None:
        path.with_suffix(".txt").write_text(caption, encoding="utf-8")
    return path


def exif(orientation):
    block = Image.Exif()
    block[ORIENTATION] = orientation
    return block


def index(folder, **settings):
    return index_concept(ConceptSettings("data.folder", folder.name, folder, **settings))


def names(found):
    return [one.path.name for one in found]


def reasons(found):
    return {skip.path.name: skip.reason for skip in found.skipped}


def png_of_size(width, height):
    """A PNG's header without pixels, of any size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT"
    chunks = [
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        for chunk in (header, data)
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_items_have_caption_size_and_name(tmp_path):
    save(tmp_path / "a.png", (1920, 1080), caption="  a red   square ")
    (item,) = index(tmp_path).items
    assert (item.caption, item.width, item.height) == ("a red square", 1920, 1080)
    assert (item.path, item.name) == (tmp_path / "a.png", "a.png")


def test_order_is_natural_and_blind_to_case(tmp_path):
    for name in ["b10.png", "B2.png", "a.png", "b1.png", "Ü.png"]:
        save(tmp_path / name)
    assert names(index(tmp_path).items) == ["a.png", "b1.png", "B2.png", "b10.png", "Ü.png"]


def test_every_kind_of_image_is_read(tmp_path):
    for suffix in ["png", "jpg", "JPEG", "jfif", "webp", "bmp", "gif", "tif", "tiff", "avif"]:
        Image.new("RGB", (64, 48)).save(tmp_path / f"{suffix}.{suffix}")
    found = index(tmp_path, require_captions=False)
    assert len(found.items) == 10
    assert {(item.width, item.height) for item in found.items} == {(64, 48)}
    assert found.skipped == ()


def test_what_is_next_to_the_images_is_no_item(tmp_path):
    save(tmp_path / "a.png")
    for name in ["a.thumb.jpg", "a-masklabel.png", ".hidden.png", "._a.png", "notes.json"]:
        (tmp_path / name).write_bytes(b"not a picture")
    found = index(tmp_path)
    assert (names(found.items), found.skipped) == (["a.png"], ())


def test_subfolders_are_taken_when_asked(tmp_path):
    save(tmp_path / "a.png")
    save(tmp_path / "sub" / "deep" / "b.png")
    save(tmp_path / ".hidden" / "c.png")
    assert names(index(tmp_path).items) == ["a.png"]
    assert names(index(tmp_path, recursive=True).items) == ["a.png", "b.png"]


def test_links_in_a_circle_end(tmp_path):
    save(tmp_path / "sub" / "a.png")
    (tmp_path / "sub" / "up").symlink_to(tmp_path, target_is_directory=True)
    assert names(index(tmp_path, recursive=True).items) == ["a.png"]


@each("data", [b"a\0b\0", b"\x81\x8d", b"x" * (2 << 20)])
def test_image_with_an_unreadable_caption_is_skipped_and_named(tmp_path, data):
    save(tmp_path / "a.png")
    save(tmp_path / "b.png").with_suffix(".txt").write_bytes(data)
    found = index(tmp_path)
    assert names(found.items) == ["a.png"]
    assert list(reasons(found)) == ["b.png"]


def test_missing_captions_are_counted(tmp_path):
    save(tmp_path / "a.png")
    save(tmp_path / "b.png", caption=None)
    found = index(tmp_path)
    assert [item.caption for item in found.items] == ["a thing", ""]
    assert found.uncaptioned == 1
    (tmp_path / "a.png").unlink()
    assert index(tmp_path, require_captions=False).uncaptioned == 1


def odd_images(folder):
    """Files that cannot be trained on, with a part of the message each should get."""
    whole = save(folder / "good.png", (600, 600)).read_bytes()
    (folder / "zero.png").write_bytes(b"")
    (folder / "text.jpg").write_text("I am not a picture")
    (folder / "cut.png").write_bytes(whole[:12])
    (folder / "bomb.png").write_bytes(png_of_size(40_000, 40_000))
    (folder / "half-gigapixel.png").write_bytes(png_of_size(50_000, 10_001))
    save(folder / "long.png", (2000, 5))
    save(folder / "ribbon.png", (20_000, 50))
    save(folder / "dot.png", (1, 1))
    save(folder / "float.tif", mode="F")
    (folder / "phone.heic").write_bytes(b"x")
    (folder / "dangling.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "pipe.png")
    return {
        "bomb.png": "500 megapixels",
        "cut.png": "damaged",
        "dangling.png": "link",
        "dot.png": "too small",
        "float.tif": "color mode",
        "half-gigapixel.png": "500 megapixels",
        "long.png": "too small",
        "phone.heic": "not supported",
        "pipe.png": "ordinary",
        "ribbon.png": "too long",
        "text.jpg": "not a PNG",
        "zero.png": "empty",
    }


def test_unusable_images_are_named_with_a_reason_and_the_rest_is_kept(tmp_path):
    expected = odd_images(tmp_path)
    found = index(tmp_path)
    assert names(found.items) == ["good.png"]
    assert list(reasons(found)) == sorted(expected)
    for name, word in expected.items():
        assert word in reasons(found)[name]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_are_no_text_are_reported_and_left_out(tmp_path):
    save(tmp_path / "good.png")
    whole = (tmp_path / "good.png").read_bytes()
    inner = os.fsencode(tmp_path) + b"/in\xff"
    Path(os.fsdecode(inner)).mkdir()
    for path in (os.fsencode(tmp_path) + b"/\xfebad\n.png", inner + b"/a.png"):
        Path(os.fsdecode(path)).write_bytes(whole)
    found = index(tmp_path, recursive=True)
    assert names(found.items) == ["good.png"]
    assert [str(one).encode() for one in found.skipped] == [
        f"{name}: {NAMELESS}".encode() for name in ("a.png", "?bad?.png")
    ]


def test_a_large_image_is_opened_while_other_threads_open_small_ones(tmp_path):
    save(tmp_path / "small.png")
    large = tmp_path / "a.png"
    large.write_bytes(png_of_size(20_000, 20_000))
    with large.open("rb") as file, (tmp_path / "small.png").open("rb") as small:
        with open_image(small, tmp_path / "small.png"):
            pass  # as another thread may do in between
        assert Image.MAX_IMAGE_PIXELS == MAX_PIXELS
        with open_image(file, large) as image:
            assert image.size == (20_000, 20_000)


def test_limits_of_shape_and_size_themselves_are_allowed(tmp_path):
    save(tmp_path / "a.png", (128, 16))
    save(tmp_path / "b.png", (16, 128))
    assert len(index(tmp_path).items) == 2


def broken(folder):
    for number in range(5):
        (folder / f"{number}.png").write_bytes(b"")


@each(
    ("prepare", "settings", "words"),
    [
        (lambda folder: folder / "missing", {}, "no such folder.*Choose another"),
        (lambda folder: save(folder / "a.png"), {}, "is a file.*Choose another"),
        (lambda folder: None, {}, "is empty.*Put images there"),
        (lambda folder: (folder / "readme.md").touch(), {"recursive": True}, "has no images.*PNG"),
        (lambda folder: save(folder / "10_cat" / "a.png") and None, {},
         'only in subfolders: "10_cat".*Include subfolders'),
        (broken, {}, "none of its 5 .*0.png: the file is empty.* 2 more"),
        (lambda folder: save(folder / "a.png", caption=None) and None, {},
         '"a.txt" for "a.png".*Require captions'),
    ],
)  # fmt: skip
def test_folder_that_cannot_be_trained_is_reported(tmp_path, prepare, settings, words):
    with pytest.raises(UserError) as error:
        index(prepare(tmp_path) or tmp_path, **settings)
    assert re.search(words, str(error.value)), str(error.value)


def test_a_list_whose_captions_are_all_missing_is_reported(tmp_path):
    save(tmp_path / "a.png")
    listed = tmp_path / "list.csv"
    for rows in ("a.png,\n", "a.png,\nb.png,b\n"):
        listed.write_text(f"file,caption\n{rows}")
        with pytest.raises(UserError, match=r"image has no caption: all captions in .* are empty"):
            index(tmp_path, caption_source="list", caption_list=listed)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("attempts", [8, pytest.param(60, marks=pytest.mark.long)])
@each("suffix", ["png", "jpg", "webp", "bmp", "gif", "tif", "avif"])
def test_damage_of_any_kind_is_an_image_error(tmp_path, suffix, attempts):
    path = tmp_path / f"a.{suffix}"
    Image.effect_noise((40, 40), 80).convert("RGB").save(path, exif=exif(6))
    whole = path.read_bytes()
    chance = random.Random(1)
    for _ in range(attempts):
        data = bytearray(whole[: chance.randrange(1, len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            with path.open("rb") as file, open_image(file, path) as image:
                image.load()
        except ImageError as error:
            assert error.reason


def test_trigger_words_are_caption_enough_where_one_text_is_for_all(tmp_path):
    save(tmp_path / "a.png", caption=None)
    silent = {"caption_source": "text", "caption_text": " "}
    assert index(tmp_path, **silent, trigger="sks dog").uncaptioned == 0
    for trigger in ("", " "):
        with pytest.raises(UserError, match="the caption for all its images is empty"):
            index(tmp_path, **silent, trigger=trigger)


@each(
    ("place", "instead"),
    [
        ("validation.folder", {"validation.caption_list"}),
        ("data.class_folder", {"data.class_text"}),
        ("data.folder", set()),
    ],
)
def test_folders_of_one_source_of_captions_are_reported_what_they_have_instead(
    tmp_path, place, instead
):
    save(tmp_path / "a.png", caption=None)
    with pytest.raises(UserError) as error:
        index_concept(ConceptSettings(place, "a", tmp_path))
    named = set(re.findall(r"\(([a-z_.]+)\)", error.value.remedy)) - {"data.require_captions"}
    assert named == instead
    assert named <= {setting.path for setting in settings(TrainConfig)}


@pytest.fixture
def folder(tmp_path):
    """Two images, of which the first has a mask and a caption."""
    save(tmp_path / "a.jpg")
    save(tmp_path / "b.png", caption=None)
    save(tmp_path / "a-masklabel.png", mode="L", caption=None)
    return tmp_path


@each("masks", ["off", "files", "alpha"])
def test_masks_are_never_trained_as_images(folder, masks):
    save(folder / "b-MaskLabel.PNG", mode="L", caption=None)
    save(folder / "no picture-masklabel.png", mode="L", caption=None)
    assert names(index(folder, masks=masks).items) == ["a.jpg", "b.png"]


def test_masks_are_found_by_the_names_of_their_images(folder):
    (folder / "inner").mkdir()
    save(folder / "inner" / "b-masklabel.png", mode="L", caption=None)  # of no image there
    found = index(folder, masks="files")
    assert [item.mask for item in found.items] == [folder / "a-masklabel.png", None]
    assert found.masked == 1
    missed = [one.path.name for one in found.findings if one.kind == "mask-missing"]
    assert missed == ["b.png"]


def test_image_whose_mask_cannot_be_read_is_left_out_and_reported(folder):
    (folder / "a-masklabel.png").write_bytes(b"")
    (folder / "b.txt").write_text("b")
    found = index(folder, masks="files")
    assert names(found.items) == ["b.png"]
    assert list(map(str, found.skipped)) == ['a.jpg: its mask "a-masklabel.png": the file is empty']


@pytest.mark.parametrize(
    ("image", "mask", "is_reported"),
    [
        ((640, 480), (640, 480), False),
        ((640, 480), (320, 240), False),
        ((641, 427), (320, 213), False),  # halves, rounded down
        ((641, 427), (321, 214), False),  # and up
        ((640, 480), (1280, 960), False),
        ((640, 480), (480, 640), True),
        ((640, 480), (640, 470), True),
        ((640, 480), (512, 512), True),
    ],
)
def test_mask_of_another_shape_is_reported_another_size_not(folder, image, mask, is_reported):
    save(folder / "a.jpg", image)
    save(folder / "a-masklabel.png", mask, "L", None)
    (folder / "b.png").unlink()
    found = index(folder, masks="files")
    assert found.masked == 1
    shapes = [one.what for one in found.findings if one.kind == "mask-shape"]
    assert bool(shapes) == is_reported
    if is_reported:
        assert f"{mask[0]} × {mask[1]} pixels, another aspect ratio" in shapes[0]


def test_shape_of_a_mask_counts_as_it_stands_upright(folder):
    save(folder / "a.jpg", (64, 32))
    save(folder / "a-masklabel.png", (32, 64), "L", None, exif=exif(6))
    (folder / "b.png").unlink()
    assert "mask-shape" not in {one.kind for one in index(folder, masks="files").findings}


def test_alpha_is_the_mask_of_images_that_have_any(folder):
    save(folder / "c.png", mode="RGBA")
    found = index(folder, masks="alpha")
    masks = {item.path.name: item.mask for item in found.items}
    assert masks["a.jpg"] is masks["b.png"] is None
    assert masks["c.png"] == folder / "c.png"


ENDINGS = {"mask": "-masklabel", "conditioning": "-condlabel"}


def test_masks_and_conditioning_images_may_have_a_folder_of_their_own(tmp_path):
    images, masks = tmp_path / "images", tmp_path / "masks"
    for path in (images / "a.jpg", images / "b.png", images / "in" / "a.png"):
        save(path)
    for path in (
        images / "b-masklabel.png",
        images / "b-condlabel.png",
        masks / "a.png",
        masks / "in" / "a.png",
    ):
        save(path, mode="L", caption=None)
    further = {"folder": str(images), "include_subfolders": True}
    for chosen, expected in (
        ("", [None, "images/b-masklabel.png", None]),
        (str(masks), ["masks/a.png", None, "masks/in/a.png"]),
    ):
        own = {"mask_folder": chosen, "conditioning_folder": chosen}
        whole = {**further, **own, "masks": "files", "conditioning": "files"}
        data = {**whole, "concepts": [{**further, **own}]}
        for concept in concepts_of(TrainConfig.model_validate({"data": data})):
            items = {item.name: item for item in index_concept(concept).items}
            for kind in ("mask", "conditioning"):
                found = [getattr(items[name], kind) for name in ("a.jpg", "b.png", "in/a.png")]
                names = [path and path.relative_to(tmp_path).as_posix() for path in found]
                assert names == [
                    name and name.replace("-masklabel", ENDINGS[kind]) for name in expected
                ]
    with pytest.raises(UserError, match="none: there is no such folder"):
        index_concept(replace(concept, mask_folder=tmp_path / "none"))
