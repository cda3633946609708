"""The warm worker of a fake worker."""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onetrainer.run.commands import ImageRequest
from onetrainer.run.events import Event, Failed, Finished, Phase, Sample, Tried
from onetrainer.run.wire import encode_event
from tests.ui.fake_paint import paint


def sample(mode: str) -> int:
    """Paints the images of one request, or fails."""
    asked = json.loads(sys.stdin.readline())

    def say(event: Event) -> None:
        print(encode_event(event, time=time.time()), end="", flush=True)

    say(Phase("loading", detail="loading the model"))
    if mode == "failed":
        say(Failed("user", "model.safetensors: this is an embedding", "Expected a model", "Choose"))
        return 2
    *images, grid = _paint(asked)
    for place, (seed, path) in enumerate(images):
        say(Sample(0, place, path, asked["prompts"][0], seed))
    say(Finished(0, [path for _, path in (*images, grid) if path]))
    return 0


def tried(images: ImageRequest) -> Iterator[Tried]:
    """Paints the images of a request to a run."""
    *made, grid = _paint(images.request)
    for place, (seed, path) in enumerate(made):
        yield Tried(images.id, place, path, images.request["prompts"][0], seed)
    yield Tried(images.id, -1, grid[1])


def _paint(asked: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Paint an image for each seed or each cell of a grid; the grid comes last, "" without one."""
    folder = Path(asked["out"])
    folder.mkdir(parents=True, exist_ok=True)

    def paint_next(name: str, seed: int, size: int) -> str:
        path = folder / f"{len(list(folder.iterdir())) + 1:05d}-{name}.png"
        paint(seed, 1.0, size=size).save(path)
        return str(path)

    axes = [asked[axis]["values"] for axis in ("x", "y") if asked.get(axis)]
    seeds = range(math.prod(map(len, axes))) if axes else asked["seeds"]
    images = [(seed, paint_next(str(seed), seed, 64)) for seed in seeds]
    return [*images, (0, paint_next("grid", 0, 256) if axes else "")]
