"""Construction of rewards from the config: loads networks, or selects formulas."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from modules.rewards import measures
from modules.rewards.function import load_function
from modules.rewards.jpeg import compressibility, jpeg_size
from modules.rewards.measures import Measure, Reward
from modules.rewards.networks.clip import PERCENT, Clip, TextScore
from modules.rewards.networks.clip_load import Published, empty_clip, load_clip, published_clip
from modules.rewards.networks.heads import Aesthetic, Head, empty_head, load_head
from modules.rewards.networks.image_reward import (
    ImageReward,
    empty_image_reward,
    load_image_reward,
)
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
_FORMULAS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "brightness": measures.brightness,
    "contrast": measures.contrast,
    "saturation": measures.saturation,
    "sharpness": measures.sharpness,
    "symmetry": measures.symmetry,
}


def make_rewards(
    sections: Sequence[Section],
    *,
    device: torch.device,
    dtype: torch.dtype,
    offline: bool,
    report: Report,
) -> list[Reward]:
    """Load the rewards of a config's entries, their networks frozen, in evaluation mode.

    Args:
        sections: The config's entries. Equal CLIPs are loaded once.
        device: Where the networks compute.
        dtype: Of the networks' weights; heads stay float32.
        offline: Download nothing.
        report: Called with messages about progress.

    Raises:
        UserError: A file is missing or invalid, or a function is not trusted.
    """
    networks = _Networks(device, dtype, offline, report)
    return [_reward(section, networks) for section in sections]


def empty_rewards(sections: Sequence[Section], *, dtype: torch.dtype) -> list[Reward]:
    """Build rewards without weights, on the meta device, for forecasts.

    With the sizes of their own files if these are on this disk, otherwise of the published
    networks. Downloads nothing, and runs no user function: a reward of that kind counts as free.
    """
    networks = _EmptyNetworks(torch.device("meta"), dtype, offline=True, report=lambda _: None)
    return [_reward(section, networks) for section in sections]


def _reward(section: Section, networks: "_Networks") -> Reward:
    text, unlike = section.text, section.unlike
    match section.reward:
        case "aesthetic":
            clip = networks.clip(section)
            return Aesthetic(clip, networks.head(section, clip))
        # Scaled as their authors' programs do; see `clip.py`.
        case "clip":
            return TextScore(networks.clip(section), PERCENT, text, unlike)
        case "pickscore":
            clip = networks.clip(section)
            return TextScore(clip, clip.scale, text, unlike)
        case "hpsv2":
            return TextScore(networks.clip(section), 1.0, text, unlike, fit="pad")
        case "image_reward":
            return networks.image_reward(section)
        case "reference":
            return networks.reference(section)
        case "function":
            return networks.function(section)
        case "color":
            return Measure(partial(measures.color, name=section.color))
        case "compressibility":
            return Measure(partial(compressibility, quality=section.quality))
        case "jpeg_size":
            return Measure(partial(jpeg_size, quality=section.quality), has_gradient=False)
        case formula:
            return Measure(_FORMULAS[formula])


@dataclass
class _Networks:
    """Loads what rewards are made of from files; see `make_rewards`."""

    device: torch.device
    dtype: torch.dtype
    offline: bool
    report: Report
    _clips: dict[tuple[object, ...], Clip] = field(default_factory=dict, init=False)

    def clip(self, section: Section) -> Clip:
        """Return the CLIP of a reward, with the text tower if the reward reads texts."""
        texts = section.reward in READS_TEXT
        # In a folder, the file depends on the reward.
        key = (section.model, PREFERRED_FILES.get(section.reward))
        cached = self._clips.get(key)
        if cached is None or (texts and cached.text is None):
            clip = self._load_clip(section, texts=texts)
            cached = clip if cached is None else replace(clip, vision=cached.vision)
            self._clips[key] = cached
        return cached if texts else replace(cached, text=None, tokenizer=None)

    def head(self, section: Section, _clip: Clip) -> Head:
        return load_head(Path(section.head).expanduser()).to(self.device)

    def image_reward(self, section: Section) -> ImageReward:
        files = self._files(section)
        vocabulary = find_vocabulary(files, section.model, offline=self.offline, report=self.report)
        return load_image_reward(
            files, vocabulary=vocabulary, text=section.text, device=self.device, dtype=self.dtype
        )

    def reference(self, section: Section) -> Reward:
        images = reference_images(Path(section.folder).expanduser())
        if not section.model:
            return color_similarity(images)
        return clip_similarity(self.clip(section), images)

    def function(self, section: Section) -> Reward:
        return load_function(section.function, has_gradient=section.has_gradient)

    def _load_clip(self, section: Section, *, texts: bool) -> Clip:
        return load_clip(self._files(section), texts=texts, device=self.device, dtype=self.dtype)

    def _files(self, section: Section) -> NetworkFiles:
        preferred = PREFERRED_FILES.get(section.reward, ())
        return find_network(
            section.model, preferred=preferred, offline=self.offline, report=self.report
        )


class _EmptyNetworks(_Networks):
    """Builds the same without weights; see `empty_rewards`."""

    def head(self, _section: Section, clip: Clip) -> Head:
        return empty_head(clip.width)

    def image_reward(self, section: Section) -> ImageReward:
        return empty_image_reward(section.text, self.dtype)

    def reference(self, section: Section) -> Reward:
        if not section.model:
            return color_similarity([torch.zeros(3, 1, 1)])
        clip = self.clip(section)
        return ClipSimilarity(clip, torch.zeros(clip.width))

    def function(self, section: Section) -> Reward:
        return Measure(lambda images: images.mean(dim=(1, 2, 3)), section.has_gradient)

    def _load_clip(self, section: Section, *, texts: bool) -> Clip:
        try:
            return empty_clip(self._files(section), texts=texts, dtype=self.dtype)
        except UserError:
            name: Published = "vit-h-14" if section.reward in _LARGE else "vit-l-14"
            return published_clip(name, texts=texts, dtype=self.dtype)
