"""The cache of images: bounded, and what scrolling has left behind is not decoded."""

import subprocess
import sys
import threading

from PIL import Image

from tests.ui.pumping import deliver_until
from ui.background import image_cache
from ui.background.image_cache import ImageCache, load_whole


def test_the_cache_is_bounded_by_the_memory_of_its_images(jobs, monkeypatch):
    monkeypatch.setattr(image_cache, "_MAX_BYTES", 5 * 512 * 512 * 4)
    cache, made = ImageCache(jobs), []

    def make():
        made.append(1)
        return Image.new("RGB", (512, 512))

    for key in range(9):
        cache.get_or_make(key, make, lambda: None)
        deliver_until(jobs, lambda key=key: key in cache._cache)
    assert list(cache._cache) == [4, 5, 6, 7, 8]
    assert cache.get_or_make(8, make, lambda: None) is not None
    assert cache.get_or_make(0, make, lambda: None) is None  # decoded again
    deliver_until(jobs, lambda: len(made) == 10)


def test_two_images_that_are_compared_stay_however_large_they_are(jobs, monkeypatch):
    monkeypatch.setattr(image_cache, "_MAX_BYTES", 1)
    cache, two = ImageCache(jobs), ("one", "other")
    for key in ("before", *two, "next"):
        cache.get_or_make(key, lambda: Image.new("RGB", (512, 512)), lambda: None)
        deliver_until(jobs, lambda key=key: key in cache._cache)
    assert all(cache.get_or_make(key, lambda: None, lambda: None) for key in two)


def test_the_oldest_requests_are_dropped_and_can_be_made_again(jobs, monkeypatch):
    monkeypatch.setattr(image_cache, "_MAX_WAITING", 5)
    monkeypatch.setattr(image_cache, "_THREADS", 1)
    cache, gate, ready = ImageCache(jobs), threading.Event(), []

    def blocked():
        gate.wait(60)
        return Image.new("RGB", (4, 4))

    def request(key):
        cache.get_or_make(key, blocked, lambda: ready.append(key))

    request("first")
    deliver_until(jobs, lambda: cache._queue.empty())  # the thread has taken it
    for key in range(50):
        request(key)
    assert len(cache._waiting) == 5
    gate.set()
    deliver_until(jobs, lambda: len(ready) >= 5)
    assert set(ready) == {45, 46, 47, 48, 49}
    request(0)
    deliver_until(jobs, lambda: 0 in ready)


def test_an_image_that_was_read_before_a_refresh_is_read_again(jobs):
    cache, gate, ready = ImageCache(jobs), threading.Event(), []
    contents = iter("ab")

    def make():
        color = next(contents)  # as the file is now
        gate.wait(60)
        return Image.new("RGB", (4, 4), {"a": "red", "b": "blue"}[color])

    cache.get_or_make("key", make, lambda: ready.append(1))
    deliver_until(jobs, lambda: cache._queue.empty())  # the thread has taken it
    cache.clear()
    gate.set()
    deliver_until(jobs, lambda: ready)
    assert cache.get_or_make("key", make, lambda: None).getpixel((0, 0)) == (0, 0, 255)


def test_its_threads_end_with_the_widgets_and_what_they_still_decode_is_dropped(jobs):
    cache, gate = ImageCache(jobs), threading.Event()
    for key in range(3):
        cache.get_or_make(key, lambda: gate.wait(60) and Image.new("RGB", (4, 4)), lambda: None)
    threads = [*cache._threads]
    jobs.forget()
    gate.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    jobs.deliver()
    assert not cache._cache
    cache.get_or_make(0, lambda: Image.new("RGB", (4, 4)), lambda: None)
    deliver_until(jobs, lambda: 0 in cache._cache)


_SHOWN = """
import sys
from pathlib import Path
from onetrainer.captions.token_count import token_counter
from onetrainer.dataset.buckets import Bucket, CropGeometry
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform
from ui.background.image_cache import load_fitting
from ui.background.preview_images import crop_overview

path = Path(sys.argv[1])
crop = ImageTransform(CropGeometry(70, 90, 3, 5, Bucket(64, 64)))
assert load_fitting(path, 30, 30) and token_counter()("a cat") == 2
assert crop_overview(Item(path, ("",), 70, 90), crop, (40, 40), "#ff0000")
print([name for name in ("numpy", "tokenizers") if name in sys.modules])
"""


def test_an_image_and_its_caption_are_shown_without_libraries_that_take_much_memory(tmp_path):
    Image.new("RGB", (70, 90)).save(tmp_path / "a.png")
    shown = [sys.executable, "-c", _SHOWN, str(tmp_path / "a.png")]
    assert subprocess.run(shown, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_whole_image_keeps_its_size(tmp_path):
    Image.new("RGB", (70, 90)).save(tmp_path / "a.png")
    assert load_whole(tmp_path / "a.png").size == (70, 90)
