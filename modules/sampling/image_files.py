"""Sample pictures as files: PNG with its settings inside, and a small JPEG beside it."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from modules.formats.files.files import replacing
from onetrainer.config.run.sampling import Prompt, SamplerName
from onetrainer.model_files.hub import is_hub_name

THUMBNAIL_SIDE = 256
THUMBNAIL_QUALITY = 85
JPEG_QUALITY = 95

SAMPLER_NAMES: dict[SamplerName, str] = {
    "ddim": "DDIM",
    "euler": "Euler",
    "euler_a": "Euler a",
    "dpmpp_2m": "DPM++ 2M, Schedule type: Uniform",
    "dpmpp_2m_karras": "DPM++ 2M, Schedule type: Karras",
    "dpmpp_2m_sde": "DPM++ 2M SDE, Schedule type: Uniform",
    "dpmpp_2m_sde_karras": "DPM++ 2M SDE, Schedule type: Karras",
    "unipc": "UniPC",
    "lcm": "LCM",
}
"""As AUTOMATIC1111's web UI calls them. Where it would choose a schedule, the schedule is told."""


@dataclass(frozen=True)
class UsedLora:
    """A LoRA that was on the model: its file's name without suffix, and how strongly."""

    name: str
    strength: float


@dataclass(frozen=True)
class Settings:
    """How a picture was made.

    step: the training step that it shows; digest: of the run's config; both None where it was not
    drawn in training. model: the base model's name, never its path. clip_skip: 0 for the family's
    own. embeddings: their files' names without suffix. vae: that of another VAE, "" for its own.
    """

    prompt: Prompt
    steps: int
    guidance: float
    step: int | None = None
    digest: str | None = None
    sampler: SamplerName = "ddim"
    guidance_rescale: float = 0.0
    model: str = ""
    loras: tuple[UsedLora, ...] = ()
    clip_skip: int = 0
    embeddings: tuple[str, ...] = ()
    vae: str = ""


def base_name(path: str) -> str:
    """What pictures call a base model: its hub name, or its file's or folder's own name.

    Never the path, which tells of a person's disk.
    """
    if is_hub_name(path):
        return path
    place = Path(path)
    return place.stem if place.is_file() else place.name


def save_image(pixels: Tensor, path: Path, settings: Settings) -> Path:
    """Writes the PNG and its thumbnail, and gives the thumbnail's path.

    pixels: (1, 3, H, W) or (3, H, W), in [-1, 1], on any device; values outside are clipped.
    The thumbnail appears first, so that a PNG is never without.
    """
    image = to_image(pixels)
    thumbnail = thumbnail_of(path)
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS)
    with replacing(thumbnail) as file:
        small.save(file, "JPEG", quality=THUMBNAIL_QUALITY)
    write_png(image, path, settings)
    return thumbnail


def save_jpeg(pixels: Tensor, path: Path) -> Path:
    """Writes a picture as a JPEG that looks like it, and its thumbnail, whose path it gives.

    pixels: as of `save_picture`.
    """
    image = to_image(pixels)
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS)
    for shown, file in ((small, thumbnail_of(path)), (image, path)):
        with replacing(file) as written:
            shown.save(written, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return thumbnail_of(path)


def write_png(image: Image.Image, path: Path, settings: Settings | None) -> None:
    """Writes the PNG, complete or not at all. settings: None for what is no single picture.

    Its "parameters" are laid out as in AUTOMATIC1111's web UI, which many programs read; its
    "onetrainer" is JSON.
    """
    text = PngInfo()
    if settings is not None:
        text.add_text("parameters", parameters(settings))
        text.add_text("onetrainer", _json(settings))
    with replacing(path) as file:
        image.save(file, "PNG", pnginfo=text)


def thumbnail_of(path: Path) -> Path:
    """Where a picture's thumbnail lies."""
    return path.with_name(path.stem + ".thumb.jpg")


def to_image(pixels: Tensor) -> Image.Image:
    """pixels: (1, 3, H, W) or (3, H, W), in [-1, 1]; waits for the device."""
    levels = ((pixels.reshape(pixels.shape[-3:]).clamp(-1, 1) + 1) * 127.5).round()
    return Image.fromarray(levels.to("cpu", torch.uint8).permute(1, 2, 0).numpy())


def parameters(settings: Settings) -> str:
    """The settings in the form of AUTOMATIC1111's web UI; LoRAs stand behind the prompt there."""
    prompt = settings.prompt
    loras = "".join(f" <lora:{lora.name}:{lora.strength:g}>" for lora in settings.loras)
    lines = [prompt.prompt + loras]
    if prompt.negative:
        lines.append(f"Negative prompt: {prompt.negative}")
    facts = [
        f"Steps: {settings.steps}",
        f"Sampler: {SAMPLER_NAMES[settings.sampler]}",
        f"CFG scale: {settings.guidance:g}",
        f"Seed: {prompt.seed}",
        f"Size: {prompt.width}x{prompt.height}",
    ]
    if settings.model:
        facts.append(f"Model: {_quoted(settings.model)}")
    if settings.vae:
        facts.append(f"VAE: {_quoted(settings.vae)}")
    if settings.embeddings:
        facts.append(f"Embeddings: {_quoted(', '.join(settings.embeddings))}")
    if settings.clip_skip:
        facts.append(f"Clip skip: {settings.clip_skip}")
    if settings.guidance_rescale:
        facts.append(f"CFG rescale: {settings.guidance_rescale:g}")
    lines.append(", ".join([*facts, "RNG: CPU"]))
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Values with separators in them are quoted as JSON there."""
    return json.dumps(text, ensure_ascii=False) if set(text) & set(',:\n"') else text


def _json(settings: Settings) -> str:
    content = {
        **settings.prompt.model_dump(mode="json"),
        "sampler": settings.sampler,
        "steps": settings.steps,
        "guidance": settings.guidance,
        "guidance_rescale": settings.guidance_rescale,
        "step": settings.step,
        "config": settings.digest,
        "model": settings.model or None,
        "loras": [vars(lora) for lora in settings.loras] or None,
        "clip_skip": settings.clip_skip or None,
        "embeddings": list(settings.embeddings) or None,
        "vae": settings.vae or None,
    }
    known = {key: value for key, value in content.items() if value is not None}
    return json.dumps(known, ensure_ascii=False, sort_keys=True)
