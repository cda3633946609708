"""Construction of rewards from the config: loads networks, or selects formulas."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from modules.interfaces import Reward
from modules.rewards import measures
from modules.rewards.function import load_function
from modules.rewards.jpeg import Compressibility, JpegSize
from modules.rewards.measures import Measure
from modules.rewards.networks.aesthetic import Aesthetic
from modules.rewards.networks.clip import PERCENT, Clip, TextScore
from modules.rewards.networks.clip_load import Published, empty_clip, load_clip, published_clip
from modules.rewards.networks.heads import empty_head, load_head
from modules.rewards.networks.image_reward import empty_image_reward, load_image_reward
from modules.rewards.networks.network_files import (
    NetworkFiles,
    Report,
    find_network,
    find_vocabulary,
)
from modules.rewards.reference import (
    ClipSimilarity,
    clip_similarity,
    color_similarity,
    reference_images,
)
from onetrainer.config.rewards.reward import READS_TEXT, RewardName
from onetrainer.config.rewards.reward import Reward as Section
from onetrainer.errors import UserError

# Weight files under the names that their authors publish, newer ones first.
PREFERRED_FILES: Mapping[RewardName, tuple[str, ...]] = {
    "hpsv2": (
        "HPS_v2.1_compressed.safetensors",
        "HPS_v2.1_compressed.pt",
        "HPS_v2_compressed.pt",
    ),
    "image_reward": ("ImageReward.safetensors", "ImageReward.pt"),
}
_LARGE: tuple[RewardName, ...] = ("pickscore", "hpsv2")  # fine-tuned from OpenCLIP's ViT-H/14


def make_rewards(
    sections: Sequence[Section],
    *,
    device: torch.device,
    dtype: torch.dtype,
    offline: bool,
    report: Report,
) -> list[Reward]:
    """Load the rewards of a config's entries, see `make_reward`; they share equal CLIPs."""
    clips = _ClipCache()
    return [
        make_reward(
            section,
            device=device,
            dtype=dtype,
            offline=offline,
            report=report,
            clips=clips,
        )
        for section in sections
    ]


def make_reward(
    section: Section,
    *,
    device: torch.device,
    dtype: torch.dtype,
    offline: bool,
    report: Report,
    clips: "_ClipCache | None" = None,
) -> Reward:
    """Load the reward of a config's entry, its network frozen on the device, in evaluation mode.

    Args:
        section: The config's entry.
        device: Where the network computes.
        dtype: Of the network's weights; heads stay float32.
        offline: Download nothing.
        report: Called with messages about progress.
        clips: Those that other rewards have loaded.

    Raises:
        UserError: A file is missing or invalid, or a function is not trusted.
    """

    def clip_of(*, texts: bool) -> Clip:
        files = _files(section, offline=offline, report=report)
        return load_clip(files, texts=texts, device=device, dtype=dtype)

    clips = clips or _ClipCache()
    match section.reward:
        case "aesthetic" | "clip" | "pickscore" | "hpsv2":
            clip = clips.get(section, clip_of)
            if section.reward == "aesthetic":
                return Aesthetic(clip, load_head(Path(section.head).expanduser()).to(device))
            return _text_score(section, clip)
        case "image_reward":
            files = _files(section, offline=offline, report=report)
            vocabulary = find_vocabulary(files, section.model, offline=offline, report=report)
            return load_image_reward(
                files, vocabulary=vocabulary, text=section.text, device=device, dtype=dtype
            )
        case "reference":
            images = reference_images(Path(section.folder).expanduser())
            if not section.model:
                return color_similarity(images)
            return clip_similarity(clips.get(section, clip_of), images)
        case "function":
            return load_function(section.function, has_gradient=section.has_gradient)
        case _:
            return _formula(section)


def empty_rewards(sections: Sequence[Section], *, dtype: torch.dtype) -> list[Reward]:
    """Build the rewards of a config's entries without weights, see `empty_reward`."""
    clips = _ClipCache()
    return [empty_reward(section, dtype=dtype, clips=clips) for section in sections]


def empty_reward(
    section: Section, *, dtype: torch.dtype, clips: "_ClipCache | None" = None
) -> Reward:
    """Build the reward without weights, on the meta device, for forecasts.

    With the sizes of its own file if that is on this disk, otherwise of the published networks.
    Downloads nothing, and runs no user function: a reward of that kind counts as free.
    clips: those of other rewards.
    """
    clips = clips or _ClipCache()
    clip_of = partial(_empty_clip, section, dtype=dtype)
    match section.reward:
        case "aesthetic" | "clip" | "pickscore" | "hpsv2":
            clip = clips.get(section, clip_of)
            if section.reward == "aesthetic":
                return Aesthetic(clip, empty_head(clip.width))
            return _text_score(section, clip)
        case "image_reward":
            return empty_image_reward(section.text, dtype)
        case "reference" if section.model:
            clip = clips.get(section, clip_of)
            return ClipSimilarity(clip, torch.zeros(clip.width))
        case "reference":
            return color_similarity([torch.zeros(3, 1, 1)])
        case "function":
            return _Mean(section.has_gradient)
        case _:
            return _formula(section)


class _ClipCache:
    """The CLIPs of several rewards, each loaded once."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[object, ...], Clip] = {}

    def get(self, section: Section, load: Callable[..., Clip]) -> Clip:
        """Return the CLIP of a reward, with the text tower if the reward reads texts.

        load: called with `texts`, whether the text tower is needed.
        """
        texts = section.reward in READS_TEXT
        # In a folder, the file depends on the reward.
        key = (section.model, PREFERRED_FILES.get(section.reward))
        cached = self._loaded.get(key)
        if cached is None or (texts and cached.text is None):
            clip = load(texts=texts)
            cached = clip if cached is None else replace(clip, vision=cached.vision)
            self._loaded[key] = cached
        return cached if texts else replace(cached, text=None, tokenizer=None)


@dataclass(frozen=True)
class _Mean:
    """Placeholder for a function that is not run."""

    has_gradient: bool

    def extra_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        del prompts
        return images.mean(dim=(1, 2, 3))


def _text_score(section: Section, clip: Clip) -> TextScore:
    """Build a CLIP score, scaled as its authors' program does; see `clip.py`."""
    text, unlike = section.text, section.unlike
    match section.reward:
        case "pickscore":
            return TextScore(clip, clip.scale, text, unlike)
        case "hpsv2":
            return TextScore(clip, 1.0, text, unlike, fit="pad")
        case _:
            return TextScore(clip, PERCENT, text, unlike)


def _formula(section: Section) -> Reward:
    """Build a reward that needs no network."""
    match section.reward:
        case "color":
            return Measure(partial(measures.color, name=section.color))
        case "brightness":
            return Measure(measures.brightness)
        case "contrast":
            return Measure(measures.contrast)
        case "saturation":
            return Measure(measures.saturation)
        case "sharpness":
            return Measure(measures.sharpness)
        case "symmetry":
            return Measure(measures.symmetry)
        case "compressibility":
            return Compressibility(section.quality)
        case "jpeg_size":
            return JpegSize(section.quality)
        case other:
            raise ValueError(other)


def _files(section: Section, *, offline: bool, report: Report) -> NetworkFiles:
    preferred = PREFERRED_FILES.get(section.reward, ())
    return find_network(section.model, preferred=preferred, offline=offline, report=report)


def _empty_clip(section: Section, *, texts: bool, dtype: torch.dtype) -> Clip:
    try:
        files = _files(section, offline=True, report=lambda _: None)
        return empty_clip(files, texts=texts, dtype=dtype)
    except UserError:
        name: Published = "vit-h-14" if section.reward in _LARGE else "vit-l-14"
        return published_clip(name, texts=texts, dtype=dtype)
