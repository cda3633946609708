"""How well near-duplicates, blur and enlarging are found: the figures of docs/image-preview.md.

python -m tests.benchmarks.image_checks [--seeds 6] [--different 200]      a minute or two
"""

import argparse
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from onetrainer.checks.item_checks import MIN_DETAIL, MIN_STRONG_DETAIL, TRACE
from onetrainer.dataset.near_duplicates import group_features, similar_pairs
from onetrainer.demo.images import draw, random_scene
from onetrainer.images.detail import detail_of
from onetrainer.images.features import image_features
from tests.benchmarks.lines import say
from tests.onetrainer.generated_images import as_jpeg, cut, enlarged, leaves, scaled
from tests.own_user import own_user

SIZE = 640
RESAMPLING = Image.Resampling
SCRATCH = Path(tempfile.mkdtemp()) / "picture.bmp"


def cloud(seed, size=SIZE):
    """Noise with the power spectrum of photographs: nothing in it has an edge."""
    rng = np.random.default_rng(seed)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    frequency[0, 0] = 1
    planes = []
    for _ in range(3):
        wave = np.fft.fft2(rng.standard_normal((size, size))) / frequency
        wave[0, 0] = 0
        plane = np.fft.ifft2(wave).real
        planes.append(128 + 50 * plane / plane.std())
    return Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8))


def portrait(seed, size=SIZE):
    """Sharp in the middle of a background that is out of focus."""
    image = leaves(seed, size).filter(ImageFilter.GaussianBlur(9))
    mask = Image.new("L", (size, size))
    ImageDraw.Draw(mask).ellipse((size * 0.3, size * 0.25, size * 0.7, size * 0.95), fill=255)
    image.paste(leaves(seed + 100, size), (0, 0), mask.filter(ImageFilter.GaussianBlur(2)))
    return image


def sketch(seed, size=SIZE):
    """Lines and writing on white."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (size, size), "white")
    brush = ImageDraw.Draw(image)
    for _ in range(50):
        ends = (rng.random(6) * size).tolist()
        color = tuple(rng.integers(0, 130, 3).tolist())
        brush.line(ends, fill=color, width=int(rng.integers(2, 7)))
    for _ in range(15):
        brush.text(tuple(rng.random(2) * size), "some words " * 3, fill="black", font_size=20)
    return image


def product(seed, size=384):
    """A few colored forms in the middle of white: all are built alike."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (size, size), "white")
    brush = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = size * (0.4 + 0.2 * rng.random(2))
        r = size * (0.04 + 0.13 * rng.random())
        form = brush.ellipse if rng.random() < 0.5 else brush.rectangle
        form((x - r, y - r, x + r, y + 1.5 * r), fill=tuple(rng.integers(0, 200, 3).tolist()))
    return image


def scenes(count):
    import random

    rng = random.Random(0)
    return [draw(random_scene(rng), 256, 256) for _ in range(count)]


def middle(image, fraction):
    """An image without a margin, so much of each side."""
    across, down = (round(side * fraction / 2) for side in image.size)
    return image.crop((across, down, image.width - across, image.height - down))


def bordered(image):
    return ImageOps.expand(image, round(image.width * 0.03), "black")


def blurred(image, radius):
    return image.filter(ImageFilter.GaussianBlur(radius))


CHANGES = {
    "scaled to half": lambda p: scaled(p, 0.5),
    "scaled to a fifth": lambda p: scaled(p, 0.2),
    "scaled to 1.7": lambda p: scaled(p, 1.7),
    "JPEG of quality 50": lambda p: as_jpeg(p, 50),
    "JPEG of quality 20": lambda p: as_jpeg(p, 20),
    "brighter by a fifth": lambda p: ImageEnhance.Brightness(p).enhance(1.2),
    "darker by 30 %": lambda p: ImageEnhance.Brightness(p).enhance(0.7),
    "contrast 1.3": lambda p: ImageEnhance.Contrast(p).enhance(1.3),
    "saturation 0.6": lambda p: ImageEnhance.Color(p).enhance(0.6),
    "mirrored": ImageOps.mirror,
    "margins of 5 % cut": lambda p: middle(p, 0.05),
    "margins of 8 % cut": lambda p: middle(p, 0.08),
    "margins of 12 % cut": lambda p: middle(p, 0.12),
    "a corner of 5 % cut": lambda p: cut(p, 0.05),
    "a corner of 8 % cut": lambda p: cut(p, 0.08),
    "a black border of 3 %": bordered,
}
SHARPNESS = {
    "as it is": lambda p: p,
    "JPEG of quality 90": lambda p: as_jpeg(p, 90),
    "JPEG of quality 30": lambda p: as_jpeg(p, 30),
    "scaled to 0.73": lambda p: scaled(p, 0.73),
    "turned by 3 degrees": lambda p: middle(p.rotate(3, RESAMPLING.BICUBIC), 0.16),
    **{f"blurred by {r} px": lambda p, r=r: blurred(p, r) for r in (0.5, 0.7, 1, 1.5, 2, 3)},
    "blurred by 2 px, JPEG 75": lambda p: as_jpeg(blurred(p, 2), 75),
    **{
        f"enlarged {factor} times, {way.name.lower()}": lambda p, f=factor, w=way: enlarged(p, f, w)
        for factor in (1.5, 2, 2.5, 3, 4)
        for way in (RESAMPLING.BILINEAR, RESAMPLING.BICUBIC, RESAMPLING.LANCZOS)
    },
    "enlarged 3 times, bicubic, JPEG 75": lambda p: as_jpeg(enlarged(p, 3), 75),
    "enlarged 2 times, nearest": lambda p: enlarged(p, 2, RESAMPLING.NEAREST),
}


def features_of(image):
    image.save(SCRATCH)
    return image_features(SCRATCH)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--different", type=int, default=200, help="images of each set")
    options = parser.parse_args()
    makers = (leaves, cloud, portrait, sketch)
    images = [make(seed, SIZE) for seed in range(options.seeds) for make in makers]
    features = [features_of(image) for image in images]
    for name, change in CHANGES.items():
        changed = [features_of(change(image)) for image in images]
        pairs = zip(features, changed, strict=True)
        found = sum(group_features(pair) == [0, 0] for pair in pairs)
        say("image_checks", change=name, images=len(images), found_as_near_duplicates=found)
    different = range(options.different)
    sets = {
        "these": features,
        "leaves": [features_of(leaves(1000 + seed, 256)) for seed in different],
        "products": [features_of(product(seed)) for seed in different],
        "demo's scenes": [features_of(image) for image in scenes(len(different))],
    }
    for name, some in sets.items():
        pairs = len(list(combinations(some, 2)))
        links = len(similar_pairs(some))
        say("image_checks", different=name, images=len(some), pairs=pairs, taken_for_similar=links)
    for name, change in SHARPNESS.items():
        found = [detail_of(change(image).convert("L")) for image in images]
        large = [d.trace >= TRACE and d.strong < MIN_STRONG_DETAIL for d in found]
        soft = [d.finest < MIN_DETAIL and not e for d, e in zip(found, large, strict=True)]
        reach, traces = sorted(d.finest for d in found), [d.trace for d in found]
        say(
            "image_checks",
            sharpness=name,
            images=len(images),
            finest_detail=f"{reach[0]:.2f} to {reach[-1]:.2f}",
            traces=f"{min(traces):.0f} to {max(traces):.0f}",
            enlarged=sum(large),
            of_blocks=sum(detail.block > 1 for detail in found),
            blurred=sum(soft),
        )


if __name__ == "__main__":
    with own_user():
        main()
