"""Files of sample images: PNG with embedded generation settings, and a JPEG thumbnail."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from onetrainer.config.base.prompt_weights import PromptWeights
from onetrainer.config.run.sampling import Prompt, SamplerName
from onetrainer.files.atomic import atomic_file
from onetrainer.model_files.hub import is_hub_name
from onetrainer.redaction import without_tokens, without_tokens_inside

# Of a prompt, in an image: paths, and what chooses the images.
NOT_SHOWN = {"use", "strengths", "image", "mask"}
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
"""Names of AUTOMATIC1111's web UI, with the schedule where it would choose one itself."""


@dataclass(frozen=True)
class UsedLora:
    """A LoRA that was applied: its file's name without suffix, and its strength."""

    name: str
    strength: float


@dataclass(frozen=True)
class Settings:
    """Generation settings of an image.

    step, digest: the training step and the digest of the run's config; both None outside of
    training. model: the base model's name, never its path. clip_skip: 0 for the family's default.
    embeddings: their files' names without suffix. vae: the name of another VAE; "" for the
    model's own. strength: Of the adapter that is trained.
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
    strength: float = 1.0
    prompt_weights: PromptWeights = "off"


def base_name(path: str) -> str:
    """Return the name of a base model for image metadata: of its hub model, file or folder.

    Never the path, which reveals a user's disk.
    """
    if is_hub_name(path):
        return path
    file = Path(path)
    return file.stem if file.is_file() else file.name


def save_image(pixels: Tensor, path: Path, settings: Settings) -> Path:
    """Write the PNG and its thumbnail, and return the thumbnail's path.

    The thumbnail is written first, so that a PNG always has one.

    Args:
        pixels: (1, 3, H, W) or (3, H, W), in [-1, 1], on any device; other values are clipped.
        path: The PNG.
        settings: Embedded in the PNG.
    """
    image = to_image(pixels)
    thumbnail = thumbnail_of(path)
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS)
    with atomic_file(thumbnail) as file:
        small.save(file, "JPEG", quality=THUMBNAIL_QUALITY)
    write_png(image, path, settings)
    return thumbnail


def save_jpeg(pixels: Tensor, path: Path) -> Path:
    """Write an image as a JPEG of high quality, and its thumbnail, whose path is returned.

    pixels: as for `save_image`.
    """
    image = to_image(pixels)
    small = image.copy()
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS)
    for size, file in ((small, thumbnail_of(path)), (image, path)):
        with atomic_file(file) as stream:
            size.save(stream, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return thumbnail_of(path)


def write_png(image: Image.Image, path: Path, settings: Settings | None) -> None:
    """Write a PNG atomically. settings: None for what is no single image.

    Its "parameters" have the layout of AUTOMATIC1111's web UI, which many programs read; its
    "onetrainer" is JSON.
    """
    text = PngInfo()
    if settings is not None:
        text.add_text("parameters", without_tokens(parameters(settings)))
        text.add_text("onetrainer", _json(settings))
    with atomic_file(path) as file:
        image.save(file, "PNG", pnginfo=text)


def thumbnail_of(path: Path) -> Path:
    """Return the path of an image's thumbnail."""
    return path.with_name(path.stem + ".thumb.jpg")


def to_image(pixels: Tensor) -> Image.Image:
    """Convert pixels, (1, 3, H, W) or (3, H, W), in [-1, 1], to an image; waits for the device."""
    levels = ((pixels.reshape(pixels.shape[-3:]).clamp(-1, 1) + 1) * 127.5).round()
    return Image.fromarray(levels.to("cpu", torch.uint8).permute(1, 2, 0).numpy())


def parameters(settings: Settings) -> str:
    """Format the settings as AUTOMATIC1111's web UI does, with the LoRAs after the prompt."""
    prompt = settings.prompt
    loras = "".join(f" <lora:{lora.name}:{lora.strength:g}>" for lora in settings.loras)
    lines = [prompt.prompt + loras]
    if prompt.negative:
        lines.append(f"Negative prompt: {prompt.negative}")
    entries = [
        f"Steps: {settings.steps}",
        f"Sampler: {SAMPLER_NAMES[settings.sampler]}",
        f"CFG scale: {settings.guidance:g}",
        f"Seed: {prompt.seed}",
        f"Size: {prompt.width}x{prompt.height}",
    ]
    if settings.model:
        entries.append(f"Model: {_quoted(settings.model)}")
    if settings.vae:
        entries.append(f"VAE: {_quoted(settings.vae)}")
    if settings.embeddings:
        entries.append(f"Embeddings: {_quoted(', '.join(settings.embeddings))}")
    if settings.clip_skip:
        entries.append(f"Clip skip: {settings.clip_skip}")
    if settings.guidance_rescale:
        entries.append(f"CFG rescale: {settings.guidance_rescale:g}")
    lines.append(", ".join([*entries, "RNG: CPU"]))
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Quote values that contain separators, as JSON, like that web UI."""
    return json.dumps(text, ensure_ascii=False) if set(text) & set(',:\n"') else text


def _json(settings: Settings) -> str:
    content = {
        **settings.prompt.model_dump(mode="json", exclude=NOT_SHOWN),
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
        "strength": None if settings.strength == 1 else settings.strength,
        "prompt_weights": None if settings.prompt_weights == "off" else settings.prompt_weights,
    }
    known = {key: value for key, value in content.items() if value is not None}
    return json.dumps(without_tokens_inside(known), ensure_ascii=False, sort_keys=True)
