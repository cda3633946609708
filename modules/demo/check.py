"""Measures how well the demo's base model follows its prompts.

    python -m modules.demo.check FOLDER [--pictures 60] [--sheet SHEET.png]

FOLDER is the base model with its tokenizer or without. An image counts as right if the shape's
pixels have the asked color, the corners the asked background, and the shape is closer to the asked
one than to any other. The sheet shows all images, wrong ones framed in red.
"""

import argparse
import logging
import random
from pathlib import Path
from typing import NamedTuple

import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline
from PIL import Image
from transformers import CLIPTokenizer

from modules.demo.folder import SD15
from modules.demo.recognition import Recognition, recognize
from onetrainer.demo.captions import caption
from onetrainer.demo.images import Scene, random_scene

logger = logging.getLogger(__name__)

STEPS = 20
GUIDANCE = 4.0
BATCH = 12


class Result(NamedTuple):
    """A scene, the image generated for its caption, and what the image shows."""

    scene: Scene
    image: Image.Image
    recognition: Recognition


def open_base(folder: Path) -> StableDiffusionPipeline:
    """Open the model in the library's pipeline, with DDIM, which shares no code with ours."""
    pipeline = StableDiffusionPipeline.from_pretrained(
        folder,
        tokenizer=CLIPTokenizer.from_pretrained(SD15 / "tokenizer"),
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
        num_inference_steps=STEPS,
        guidance_scale=GUIDANCE,
        generator=generators,
    )
    return list(result.images)


def measure(folder: Path, *, count: int, seed: int) -> list[Result]:
    """Generate and recognize images for the captions of random scenes."""
    pipeline = open_base(folder)
    rng = random.Random(seed)
    scenes = [random_scene(rng) for _ in range(count)]
    images: list[Image.Image] = []
    for start in range(0, count, BATCH):
        prompts = [caption(scene) for scene in scenes[start : start + BATCH]]
        images += generate(pipeline, prompts, seed=seed + start)
    return [
        Result(scene, image, recognize(image)) for scene, image in zip(scenes, images, strict=True)
    ]


def report(results: list[Result]) -> str:
    """Summarize how many images are right, and list the wrong ones."""
    count = len(results)
    wrong = [result for result in results if not result.recognition.matches(result.scene)]
    lines = [f"wrong: {caption(result.scene)}: {result.recognition}" for result in wrong]
    for what, right in (
        (
            "background",
            [recognition.background == scene.background for scene, _, recognition in results],
        ),
        ("color", [recognition.color == scene.color for scene, _, recognition in results]),
        ("shape", [recognition.shape == scene.shape for scene, _, recognition in results]),
        ("all", [recognition.matches(scene) for scene, _, recognition in results]),
    ):
        lines.append(f"{what}: {sum(right)} of {count} right")
    return "\n".join(lines)


def contact_sheet(results: list[Result], columns: int = 12) -> Image.Image:
    """Return all images in a grid, wrong ones framed in red."""
    cell = 136
    rows = -(-len(results) // columns)
    page = Image.new("RGB", (columns * cell, rows * cell), "white")
    for index, (scene, image, recognition) in enumerate(results):
        frame = Image.new("RGB", (cell, cell), "white" if recognition.matches(scene) else "red")
        frame.paste(image, (4, 4))
        page.paste(frame, (index % columns * cell, index // columns * cell))
    return page


def main() -> None:
    """Read the command line and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", dest="images", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)  # two threads on a busy computer wait for each other
    results = measure(options.folder, count=options.images, seed=options.seed)
    logger.info("%s", report(results))
    if options.sheet:
        contact_sheet(results).save(options.sheet)


if __name__ == "__main__":
    main()
