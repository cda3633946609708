"""Measures how well the demo's base model follows its prompts.

    python -m tests.demo_check FOLDER [--images 60] [--sheet SHEET.png]

FOLDER is the base model with its tokenizer or without. An image counts as right if the shape's
pixels have the asked color, the corners the asked background, and the shape is closer to the asked
one than to any other. The sheet shows all images, wrong ones framed in red.
"""

import argparse
import logging
import random
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline
from numpy.typing import NDArray
from PIL import Image
from transformers import CLIPTokenizer

from onetrainer.demo.images import (
    BACKGROUNDS,
    COLORS,
    SHAPES,
    Scene,
    caption,
    random_scene,
    shape_mask,
)
from onetrainer.families.spec import CLIP_TOKENIZER

logger = logging.getLogger(__name__)

Array = NDArray[numpy.float64]
Mask = NDArray[numpy.bool_]

CORNER = 6  # px; corners are free of shapes of any size
FOREGROUND_DISTANCE = 34.0  # RGB distance from background and shadow of a foreground pixel
SHADOW = 0.75  # shadows keep three quarters of the background's light
MIN_PIXELS = 80  # of a shape; less is noise


@dataclass(frozen=True)
class Recognition:
    """What an image shows, by palette and outline; `color` and `shape` are None without a shape."""

    background: str
    color: str | None
    shape: str | None

    def matches(self, scene: Scene) -> bool:
        """Return whether background, color and shape are those of the scene."""
        return self == Recognition(scene.background, scene.color, scene.shape)


def recognize(image: Image.Image) -> Recognition:
    """Recognize what an image in the style of onetrainer.demo.images shows."""
    pixels = numpy.asarray(image.convert("RGB"), dtype=numpy.float64)  # (H, W, 3)
    sides = pixels[:, [*range(CORNER), *range(-CORNER, 0)]]
    upper, lower = (numpy.median(rows, axis=(0, 1)) for rows in (sides[:CORNER], sides[-CORNER:]))
    background = min(
        BACKGROUNDS,
        key=lambda name: sum(
            _distance(tone, known)
            for tone, known in zip((upper, lower), BACKGROUNDS[name], strict=True)
        ),
    )
    position = numpy.linspace(0, 1, len(pixels))[:, None, None]
    ground = upper * (1 - position) + lower * position
    distances = [numpy.linalg.norm(pixels - tone, axis=2) for tone in (ground, ground * SHADOW)]
    mask: Mask = numpy.minimum(*distances) > FOREGROUND_DISTANCE
    if mask.sum() < MIN_PIXELS:
        return Recognition(background, None, None)
    tone = numpy.median(pixels[mask], axis=0)
    color = min(COLORS, key=lambda name: _distance(tone, COLORS[name]))
    return Recognition(background, color, _nearest_shape(mask))


def _distance(tone: Array, other: tuple[int, int, int]) -> float:
    return float(numpy.linalg.norm(tone - other))


def _nearest_shape(mask: Mask) -> str:
    """Return the shape whose outline overlaps the mask best, both stretched to one box."""
    outline = _in_box(mask)

    def overlap(shape: str) -> float:
        template = _in_box(numpy.asarray(shape_mask(shape, 64, 64, 40, (128, 128))) > 127)
        return float((outline & template).sum() / (outline | template).sum())

    return max(SHAPES, key=overlap)


def _in_box(mask: Mask) -> Mask:
    """Return the bounding box of what is more than a stray pixel, stretched to (64, 64)."""
    for axis in (0, 1):
        filled = numpy.flatnonzero(mask.sum(axis=1 - axis) > 1)
        if len(filled):
            mask = mask.take(range(filled[0], filled[-1] + 1), axis=axis)
    return numpy.asarray(Image.fromarray(mask).resize((64, 64)))


def open_base(folder: Path) -> StableDiffusionPipeline:
    """Open the model in the library's pipeline, with DDIM, which shares no code with ours."""
    pipeline = StableDiffusionPipeline.from_pretrained(
        folder,
        tokenizer=CLIPTokenizer.from_pretrained(CLIP_TOKENIZER),
        local_files_only=True,
        dtype=torch.float32,
    )
    pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def generate(
    pipeline: StableDiffusionPipeline, prompts: list[str], *, seed: int
) -> list[Image.Image]:
    """Generate one image for each prompt, each from its own noise."""
    generators = [torch.Generator().manual_seed(seed + index) for index in range(len(prompts))]
    result = pipeline(
        prompts,
        width=128,
        height=128,
        num_inference_steps=20,
        guidance_scale=4.0,
        generator=generators,
    )
    return list(result.images)


def main() -> None:
    """Generate images for the captions of random scenes and list those that are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)  # two threads on a busy computer wait for each other
    pipeline = open_base(options.folder)
    rng = random.Random(options.seed)
    scenes = [random_scene(rng) for _ in range(options.images)]
    right, cell, columns = 0, 136, 12
    sheet = Image.new("RGB", (columns * cell, -(-len(scenes) // columns) * cell), "white")
    for index, scene in enumerate(scenes):
        (image,) = generate(pipeline, [caption(scene)], seed=options.seed + index)
        found = recognize(image)
        x, y = index % columns * cell, index // columns * cell
        if found.matches(scene):
            right += 1
        else:
            logger.info("wrong: %s: %s", caption(scene), found)
            sheet.paste("red", (x, y, x + cell, y + cell))
        sheet.paste(image, (x + 4, y + 4))
    logger.info("%d of %d right", right, len(scenes))
    if options.sheet:
        sheet.save(options.sheet)


if __name__ == "__main__":
    main()
