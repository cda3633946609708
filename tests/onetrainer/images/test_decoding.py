"""Images of very many pixels: decoded one at a time, and only if the memory is there."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset import transformed_image
from onetrainer.dataset.items import index_concept
from onetrainer.dataset.transformed_image import load_transformed
from onetrainer.dataset.transforms import image_transform
from onetrainer.images import decoding as module
from onetrainer.images.decoding import decoding, decoding_bytes, free_memory
from onetrainer.images.features import image_features
from onetrainer.images.image_file import ImageError
from onetrainer.images.image_index import ImageIndex
from tests.each import each
from tests.runs import DEADLINE

FREE = 1 << 20


@pytest.fixture
def little_memory(monkeypatch):
    """A computer with a MB of memory, where an image of 100 kB is huge."""
    for place in (module, transformed_image):
        monkeypatch.setattr(place, "HUGE", 100_000)
    monkeypatch.setattr(module, "free_memory", lambda: FREE + module._RESERVE)


def load(folder, resolution=64):
    concept = ConceptSettings(
        "data.folder", "", folder, require_captions=False, resolutions=(resolution,)
    )
    for item in index_concept(concept).items:
        with item.path.open("rb") as file:
            yield load_transformed(item, image_transform(item, concept, 0), file)


def test_an_image_that_needs_more_memory_than_is_free_is_refused_with_both(tmp_path, little_memory):
    path = tmp_path / "bomb.png"
    Image.new("RGB", (512, 400)).save(path)
    words = r"512 × 400 pixels need 0.0 GB of memory to decode, and 0.0 GB is free; save it smaller"
    with pytest.raises(ImageError, match=words):
        list(load(tmp_path))
    index = ImageIndex(tmp_path / "index")
    with pytest.raises(ImageError, match=words):
        image_features(path, index)
    assert index.damage(path) is None  # tomorrow there may be enough
    Image.new("RGB", (300, 300)).save(path)
    assert image_features(path)


def test_a_jpeg_needs_only_what_its_resolution_needs(tmp_path, little_memory):
    Image.new("RGB", (2100, 2100)).save(tmp_path / "large.jpg")
    assert [image.size for image in load(tmp_path)] == [(64, 64)]
    with pytest.raises(ImageError, match="2100 × 2100 pixels need"):
        list(load(tmp_path, resolution=448))


def test_huge_images_are_decoded_one_at_a_time_and_others_meanwhile(tmp_path, little_memory):
    huge, small = (Image.new("RGB", (side, side)) for side in (300, 10))
    inside, started = [], threading.Barrier(3)

    def decode(_):
        started.wait()
        with decoding(huge, tmp_path):
            inside.append(1)
            assert len(inside) == 1
            with decoding(small, tmp_path):
                pass
            inside.pop()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(decode, range(3)))


def test_an_image_waits_while_those_being_decoded_leave_too_little_memory(tmp_path, monkeypatch):
    asked, entered = threading.Event(), threading.Event()
    large, larger = (Image.new("RGB", (side, side)) for side in (300, 500))

    def free():
        asked.set()
        return FREE + module._RESERVE

    def decode():
        with decoding(large, tmp_path):
            entered.set()

    monkeypatch.setattr(module, "free_memory", free)
    assert decoding_bytes(larger) > FREE
    with ThreadPoolExecutor(1) as pool:
        with decoding(larger, tmp_path):  # alone, so not refused
            second = pool.submit(decode)
            assert asked.wait(DEADLINE)
            assert not entered.is_set()
        second.result(DEADLINE)
    monkeypatch.setattr(module, "_LONGEST_WAIT", 0.01)
    with decoding(large, tmp_path), decoding(large, tmp_path):
        pass  # what would wait for itself


def test_running_out_of_memory_is_an_error_of_the_image(tmp_path):
    image = Image.new("L", (1, 1))
    with pytest.raises(ImageError, match="not enough memory"), decoding(image, tmp_path):
        raise MemoryError


@each(
    ("mode", "form", "least"),
    [
        ("RGB", "png", 7.0),
        ("RGBA", "png", 16.0),
        ("CMYK", "jpeg", 11.0),
        ("I;16", "png", 10.0),
        ("RGB", "webp", 16.1),
        ("RGBA", "webp", 24.1),
        ("L", "png", 8.0),
    ],
)
def test_no_more_is_taken_than_was_measured(mode, form, least):
    file = io.BytesIO()
    Image.new(mode, (10, 10)).save(file, form)
    with Image.open(file) as image:
        assert least <= decoding_bytes(image) / 100 <= 1.3 * least


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_GROUP", tmp_path)
    outside = free_memory()
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 300000\nfile 400000\n")
    assert free_memory() == 700_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > outside / 2
