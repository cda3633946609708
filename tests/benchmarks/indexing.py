"""How fast folders are listed: `python -m tests.benchmarks.indexing [IMAGES]`.

100,000 images of the usual kinds, each with its caption, are hard links to fifty files. The
headers of a tenth of them are also read alone.
"""

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from PIL import Image

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.items import index_concept
from onetrainer.images.header import read_header
from onetrainer.images.image_index import recent_facts
from tests.own_user import own_user

KINDS = ("png", "jpg", "webp", "jpg", "png")
FILES, A_FOLDER = 50, 20_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        paths = _link(root / "images", _files(root), count)
        some = paths[:: max(1, count // 10_000)]
        for path in some:  # once, so that nobody waits for the disk
            read_header(path)
        headers = _seconds(lambda: [read_header(path) for path in some])
        concept = ConceptSettings("data.folder", "images", root / "images", recursive=True)
        recent = recent_facts()
        first, again = (_seconds(lambda: index_concept(concept, headers=recent)) for _ in range(2))
    result = {
        "benchmark": "indexing",
        "images": count,
        "seconds": round(first, 1),
        "seconds again": round(again, 1),
        "header µs": round(1e6 * headers / len(some), 1),
        "RSS MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(result, ensure_ascii=False))


def _files(root: Path) -> list[Path]:
    """Images of half a megapixel, a third of them with EXIF, changed long ago."""
    rng, found = np.random.default_rng(0), []
    exif = Image.Exif()
    exif[0x0112] = 6
    for number in range(FILES):
        width, height = rng.integers(400, 1000, 2).tolist()
        pixels = rng.integers(0, 255, (height // 8, width // 8, 3), dtype=np.uint8)
        image = Image.fromarray(pixels).resize((width, height))
        path = root / f"{number}.{KINDS[number % len(KINDS)]}"
        image.save(path, **({"exif": exif} if number % 3 == 0 else {}))
        found.append(path)
    return found


def _link(folder: Path, files: list[Path], count: int) -> list[Path]:
    found = []
    for number in range(count):
        file = files[number % len(files)]
        inner = folder / str(number // A_FOLDER)
        inner.mkdir(parents=True, exist_ok=True)
        found.append(inner / f"image {number}{file.suffix}")
        os.link(file, found[-1])
        found[-1].with_suffix(".txt").write_text(f"a caption of image {number}, with some tags")
    return found


def _seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


if __name__ == "__main__":
    with own_user():
        main()
