"""Sample pictures as files: PNG with its settings inside, and a small JPEG beside it."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from modules.formats.files import replacing
from onetrainer.config.sampling import Prompt

THUMBNAIL_SIDE = 256
THUMBNAIL_QUALITY = 85


@dataclass(frozen=True)
class Settings:
    """How a sample was made.

    step: the training step that it shows. digest: of the run's config.
    """

    prompt: Prompt
    steps: int
    guidance: float
    step: int
    digest: str


def save_picture(pixels: Tensor, path: Path, settings: Settings) -> Path:
    """Writes the PNG and its thumbnail, and gives the thumbnail's path.

    pixels: (1, 3, H, W) or (3, H, W), in [-1, 1], on any device; values outside are clipped.
    The PNG's "parameters" are laid out as in AUTOMATIC1111's web UI, which many programs read;
    its "onetrainer" is JSON. The thumbnail appears first, so that a PNG is never without.
    """
    picture = to_picture(pixels)
    thumbnail = thumbnail_of(path)
    small = picture.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS)
    with replacing(thumbnail) as file:
        small.save(file, "JPEG", quality=THUMBNAIL_QUALITY)
    text = PngInfo()
    text.add_text("parameters", parameters(settings))
    text.add_text("onetrainer", _json(settings))
    with replacing(path) as file:
        picture.save(file, "PNG", pnginfo=text)
    return thumbnail


def thumbnail_of(path: Path) -> Path:
    """Where a picture's thumbnail lies."""
    return path.with_name(path.stem + ".thumb.jpg")


def to_picture(pixels: Tensor) -> Image.Image:
    """pixels: (1, 3, H, W) or (3, H, W), in [-1, 1]; waits for the device."""
    levels = ((pixels.reshape(pixels.shape[-3:]).clamp(-1, 1) + 1) * 127.5).round()
    return Image.fromarray(levels.to("cpu", torch.uint8).permute(1, 2, 0).numpy())


def parameters(settings: Settings) -> str:
    """The settings in the form of AUTOMATIC1111's web UI."""
    prompt = settings.prompt
    lines = [prompt.prompt]
    if prompt.negative:
        lines.append(f"Negative prompt: {prompt.negative}")
    lines.append(
        f"Steps: {settings.steps}, Sampler: DDIM, CFG scale: {settings.guidance:g},"
        f" Seed: {prompt.seed}, Size: {prompt.width}x{prompt.height}"
    )
    return "\n".join(lines)


def _json(settings: Settings) -> str:
    content = {
        **settings.prompt.model_dump(mode="json"),
        "steps": settings.steps,
        "guidance": settings.guidance,
        "step": settings.step,
        "config": settings.digest,
    }
    return json.dumps(content, ensure_ascii=False, sort_keys=True)
