"""A dataset of small images, and a family that counts what it is asked to encode."""

from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from modules.data.batches import BatchSource
from modules.data.cache import EncodeOptions, encode_captions, encode_images, encoder_digests
from modules.data.encoded_items import TransformTable
from modules.data.shards import Store
from modules.families.stable_diffusion import StableDiffusion
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.caption_sampling import sample_caption
from onetrainer.dataset.items import index_concept
from onetrainer.images import image_index as image_memory
from onetrainer.images.image_index import ImageIndex
from tests import tiny

SIZES = [(64, 64), (96, 48), (64, 64), (48, 96), (70, 66)]


@dataclass
class CountingFamily:
    """The tiny Stable Diffusion, and how much it has encoded.

    most: how many images it has memory for. batches: how many it was given at once.
    """

    inner: StableDiffusion
    most: int = 1000
    images: int = 0
    texts: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    @property
    def spec(self):
        return self.inner.spec

    @property
    def vae(self):
        return self.inner.vae

    @property
    def text_encoders(self):
        return self.inner.text_encoders

    def encode_images(self, pixels):
        self.batches.append(len(pixels))
        if len(pixels) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.images += len(pixels)
        return self.inner.encode_images(pixels)

    def encoder_settings(self):
        return ("scale", "tokenizer")

    def encode_text(self, captions, *, among=()):
        self.texts += captions
        return self.inner.encode_text(captions)

    def encoded(self):
        """How many images and captions were encoded since this was last asked."""
        counts = (self.images, len(self.texts))
        self.images, self.texts, self.batches = 0, [], []
        return counts


@dataclass
class Workbench:
    """A folder of images, a cache next to it, and the family that encodes into it."""

    folder: Path
    family: CountingFamily
    concept: ConceptSettings
    stores: list[Store] = field(default_factory=list)

    @property
    def cache(self):
        return self.folder.parent / "cache"

    def add(self, name, size=(64, 64), caption="", seed=0):
        noise(size, seed).save(self.folder / f"{name}.png")
        self.caption(name, caption)

    def add_companion(self, name, kind, size=(64, 64), seed=0):
        """A mask ("masklabel") or a conditioning image ("condlabel") of an image."""
        noise(size, seed).save(self.folder / f"{name}-{kind}.png")

    def add_turned(self, name, upright, turn, stored):
        """An image whose EXIF says how `stored` is to be turned to stand `upright`."""
        exif = Image.Exif()
        exif[0x0112] = turn
        image = Image.fromarray(upright)
        image = image if stored is None else image.transpose(stored)
        image.save(self.folder / f"{name}.png", exif=exif)
        self.caption(name, "turned")

    def caption(self, name, text):
        (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def set(self, **changes):
        """Changes settings of the folder."""
        self.concept = replace(self.concept, **changes)

    def index(self):
        return index_concept(self.concept)

    def encode(self, **changes):
        """A shelf of all images, and of their captions unless with_text=False."""
        concepts = changes.pop("concepts", (self.concept,))
        items = changes.pop("items", None)
        folder = changes.pop("folder", self.cache)
        with_text = changes.pop("with_text", True)
        store = Store(folder)
        self.stores.append(store)
        common = {
            "store": store,
            "digests": changes.pop("digests", None) or encoder_digests(self.family),
            "progress": changes.pop("progress", lambda done, total: None),
            "should_stop": changes.pop("should_stop", lambda: False),
        }
        is_plain = changes.pop("validation", False)
        options = EncodeOptions(**({"threads": 0} | changes))
        with closing(ImageIndex(folder)) as memory:
            items = self.index().items if items is None else items
            transforms = TransformTable(items, concepts, is_plain=is_plain)
            images = encode_images(
                self.family, transforms, file_digests=memory, options=options, **common
            )
        captions = ["", *(caption for item in images.items for caption in item.captions)]
        texts = encode_captions(self.family, captions, **common) if with_text else None
        return BatchSource(
            images,
            texts,
            tuple(concepts),
            lambda item, turn: sample_caption(item, concepts[item.concept], turn),
        )


def noise(size, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(scope="package")
def session_family():
    """Built once; tests that change its weights take `family` instead."""
    return tiny.family()


@pytest.fixture
def bench(tmp_path, session_family):
    """Five images in three buckets; two of them have the same caption."""
    (tmp_path / "images").mkdir()
    concept = ConceptSettings(
        "data.folder", "images", tmp_path / "images", resolutions=(64,), masks="files"
    )
    bench = Workbench(tmp_path / "images", CountingFamily(session_family), concept)
    for number, size in enumerate(SIZES):
        bench.add(f"p{number}", size, caption=f"thing {number % 4}", seed=number)
    yield bench
    for store in bench.stores:
        store.close()


@pytest.fixture
def later(monkeypatch):
    """Lets every file seem to have been changed a minute ago."""
    now = image_memory.time.time_ns
    monkeypatch.setattr(image_memory.time, "time_ns", lambda: now() + 60_000_000_000)
