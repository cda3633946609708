"""Masks are found beside their images, never learnt as images, and told where they are odd."""

import pytest
from PIL import Image

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.items import index_concept


def save(path, size=(64, 64), mode="RGB", **options):
    Image.new(mode, size).save(path, **options)


@pytest.fixture
def folder(tmp_path):
    """Two images, of which the first has a mask and a caption."""
    save(tmp_path / "a.jpg")
    save(tmp_path / "b.png")
    save(tmp_path / "a-masklabel.png", mode="L")
    (tmp_path / "a.txt").write_text("a thing")
    return tmp_path


def index(folder, masks="files"):
    return index_concept(ConceptSettings("data.folder", folder.name, folder, masks=masks))


@pytest.mark.parametrize("masks", ["off", "files", "alpha"])
def test_masks_are_never_trained_as_images(folder, masks):
    save(folder / "b-MaskLabel.PNG", mode="L")
    save(folder / "no picture-masklabel.png", mode="L")
    assert [item.path.name for item in index(folder, masks).items] == ["a.jpg", "b.png"]


def test_masks_are_found_by_the_names_of_their_images(folder):
    (folder / "inner").mkdir()
    save(folder / "inner" / "b-masklabel.png", mode="L")  # of no picture there
    found = index(folder)
    assert [item.mask for item in found.items] == [folder / "a-masklabel.png", None]
    assert found.masked == 1
    assert found.notes == ("1 of 2 images has no mask. It is trained whole",)


def test_image_whose_mask_cannot_be_read_is_left_out_and_reported(folder):
    (folder / "a-masklabel.png").write_bytes(b"")
    (folder / "b.txt").write_text("b")
    found = index(folder)
    assert [item.path.name for item in found.items] == ["b.png"]
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
    save(folder / "a-masklabel.png", mask, "L")
    (folder / "b.png").unlink()
    found = index(folder)
    assert found.masked == 1
    assert bool(found.notes) == is_reported
    if is_reported:
        assert f"{mask[0]} × {mask[1]} pixels) has another aspect ratio" in found.notes[0]


def test_shape_of_a_mask_counts_as_it_stands_upright(folder):
    turned = Image.Exif()
    turned[0x0112] = 6
    save(folder / "a.jpg", (64, 32))
    save(folder / "a-masklabel.png", (32, 64), "L", exif=turned)
    (folder / "b.png").unlink()
    assert index(folder).notes == ()


def test_alpha_is_the_mask_of_images_that_have_any(folder):
    save(folder / "c.png", mode="RGBA")
    found = index(folder, "alpha")
    masks = {item.path.name: item.mask for item in found.items}
    assert masks["a.jpg"] is masks["b.png"] is None
    assert masks["c.png"] == folder / "c.png"
