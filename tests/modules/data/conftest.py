"""A dataset of small pictures, and a family that counts what it is asked to encode."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from modules.data.cache import encode_dataset
from modules.families.stable_diffusion import StableDiffusion
from onetrainer.dataset_index import index_folder
from tests import tiny

SIZES = [(64, 64), (96, 48), (64, 64), (48, 96), (70, 66)]


@dataclass
class CountingFamily:
    """The tiny Stable Diffusion, and how much it has encoded."""

    inner: StableDiffusion
    images: int = 0
    texts: list[str] = field(default_factory=list)

    @property
    def vae(self):
        return self.inner.vae

    @property
    def text_encoders(self):
        return self.inner.text_encoders

    def encode_images(self, pixels):
        self.images += len(pixels)
        return self.inner.encode_images(pixels)

    def encoder_settings(self):
        return ("scale", "tokenizer")

    def encode_text(self, captions, *, among=()):
        self.texts += captions
        return self.inner.encode_text(captions)

    def encoded(self):
        """How many pictures and captions were encoded since this was last asked."""
        counts = (self.images, len(self.texts))
        self.images, self.texts = 0, []
        return counts


@dataclass
class Workbench:
    """A folder of pictures, a cache beside it, and the family that encodes into it."""

    folder: Path
    family: CountingFamily
    resolution: int = 64

    @property
    def cache(self):
        return self.folder.parent / "cache"

    def add(self, name, size=(64, 64), caption="", seed=0):
        noise = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        Image.fromarray(noise).save(self.folder / f"{name}.png")
        self.caption(name, caption)

    def add_turned(self, name, upright, turn, stored):
        """A picture whose EXIF says how `stored` is to be turned to stand `upright`."""
        exif = Image.Exif()
        exif[0x0112] = turn
        picture = Image.fromarray(upright)
        picture = picture if stored is None else picture.transpose(stored)
        picture.save(self.folder / f"{name}.png", exif=exif)
        self.caption(name, "turned")

    def caption(self, name, text):
        (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def index(self):
        return index_folder(self.folder, resolution=self.resolution)

    def encode(self, **changes):
        settings = {
            "items": self.index().items,
            "folder": self.cache,
            "with_text": True,
            "progress": lambda done, total: None,
            "should_stop": lambda: False,
        }
        return encode_dataset(self.family, **(settings | changes))


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Threads that wait for each other cost more than these small models are worth."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="package")
def shared_family():
    """Built once; tests that change its weights take `family` instead."""
    return tiny.family()


@pytest.fixture
def bench(tmp_path, shared_family):
    """Five pictures in three buckets; two of them share a caption."""
    (tmp_path / "pictures").mkdir()
    bench = Workbench(tmp_path / "pictures", CountingFamily(shared_family))
    for number, size in enumerate(SIZES):
        bench.add(f"p{number}", size, caption=f"thing {number % 4}", seed=number)
    return bench
