"""Thumbnails show people what training sees."""

import numpy as np
import pytest
import torch
from PIL import Image

from onetrainer.dataset.dataset import read_dataset
from onetrainer.dataset.transforms import image_transform
from onetrainer.presets.presets import resolve
from onetrainer.preview.contact_sheet import thumbnail
from tests.transforms import load_pixels

CHANGES = {"flip": "random", "rotate": 20, "crop_jitter": 0.3, "hue": 90, "contrast": 0.5}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Images of noise, upright and not, with transparency and without."""
    folder = tmp_path_factory.mktemp("images")
    noise = np.random.default_rng(0)
    for name, shape, exif in (
        ("wide", (90, 140, 3), 1),
        ("turned", (90, 140, 3), 6),
        ("clear", (80, 80, 4), 1),
    ):
        image = Image.fromarray(noise.integers(0, 256, shape, dtype=np.uint8))
        image.getexif()[0x0112] = exif
        image.save(folder / f"{name}.png", exif=image.getexif())
    data = {"folder": str(folder), "resolution": 64, "require_captions": False}
    return read_dataset(resolve({"data": data | {"augmentation": CHANGES}}, source=""))


@pytest.mark.parametrize("number", range(2))
def test_a_thumbnail_of_full_size_is_what_training_sees(dataset, number):
    assert len(dataset.items) == 3
    for item in dataset.items:
        own = image_transform(item, dataset.concept_of(item), number)
        shown = np.asarray(thumbnail(item, own, 10_000)).astype(np.float32)
        seen = (load_pixels(item, own).permute(1, 2, 0) + 1) * 127.5
        torch.testing.assert_close(torch.from_numpy(shown), seen, atol=0.51, rtol=0)
