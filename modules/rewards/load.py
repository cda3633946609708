"""A config's reward as an object: its network read, or its formula chosen."""

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
from modules.rewards.networks.network_files import NetworkFiles, Tell, find_network, find_vocabulary
from modules.rewards.reference import LikenessByClip, likeness_by_clip, likeness_by_color
from modules.rewards.reference_images import reference_images
from onetrainer.config.rewards.reward import READS_TEXT, RewardName
from onetrainer.config.rewards.reward import Reward as Section
from onetrainer.errors import UserError

# Weight files under the names that their authors publish them by, the newer ones first.
USUAL: Mapping[RewardName, tuple[str, ...]] = {
    "hpsv2": (
        "HPS_v2.1_compressed.safetensors",
        "HPS_v2.1_compressed.pt",
        "HPS_v2_compressed.pt",
    ),
    "image_reward": ("ImageReward.safetensors", "ImageReward.pt"),
}
_LARGE: tuple[RewardName, ...] = ("pickscore", "hpsv2")  # made of OpenCLIP's ViT-H/14


def make_rewards(
    sections: Sequence[Section],
    *,
    device: torch.device,
    dtype: torch.dtype,
    offline: bool,
    tell: Tell,
    consents: Path | None = None,
) -> list[Reward]:
    """The rewards of a config's entries, see `make_reward`; those of one CLIP share it."""
    clips = _Clips()
    return [
        make_reward(
            section,
            device=device,
            dtype=dtype,
            offline=offline,
            tell=tell,
            consents=consents,
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
    tell: Tell,
    consents: Path | None = None,
    clips: "_Clips | None" = None,
) -> Reward:
    """The reward of a config's entry, its network frozen on the device, in evaluation mode.

    dtype: of the network's weights; heads stay float32. offline: downloads nothing. tell: gets
    words for what is being done. consents: the file of functions that may be run; None for the
    user's own. clips: those that other rewards have loaded. Raises UserError where
    something is missing, not what it should be, or not allowed.
    """

    def clip_of(*, texts: bool) -> Clip:
        files = _files(section, offline=offline, tell=tell)
        return load_clip(files, texts=texts, device=device, dtype=dtype)

    clips = clips or _Clips()
    match section.reward:
        case "aesthetic" | "clip" | "pickscore" | "hpsv2":
            clip = clips.of(section, clip_of)
            if section.reward == "aesthetic":
                return Aesthetic(clip, load_head(Path(section.head).expanduser()).to(device))
            return _text_score(section, clip)
        case "image_reward":
            files = _files(section, offline=offline, tell=tell)
            words = find_vocabulary(files, section.model, offline=offline, tell=tell)
            return load_image_reward(
                files, vocabulary=words, text=section.text, device=device, dtype=dtype
            )
        case "reference":
            images = reference_images(Path(section.folder).expanduser())
            if not section.model:
                return likeness_by_color(images)
            return likeness_by_clip(clips.of(section, clip_of), images)
        case "function":
            return load_function(
                section.function, has_gradient=section.has_gradient, consents=consents
            )
        case _:
            return _formula(section)


def empty_rewards(sections: Sequence[Section], *, dtype: torch.dtype) -> list[Reward]:
    """The rewards of a config's entries without weights, see `empty_reward`."""
    clips = _Clips()
    return [empty_reward(section, dtype=dtype, clips=clips) for section in sections]


def empty_reward(section: Section, *, dtype: torch.dtype, clips: "_Clips | None" = None) -> Reward:
    """The reward without weights, on the meta device, for counting what it would take.

    Of the sizes of its own file where that is on this disk, of the published networks' otherwise.
    Nothing is downloaded, and no function of a person's is run: such a one counts as if it took
    nothing. clips: those of other rewards.
    """
    clips = clips or _Clips()
    clip_of = partial(_empty_clip, section, dtype=dtype)
    match section.reward:
        case "aesthetic" | "clip" | "pickscore" | "hpsv2":
            clip = clips.of(section, clip_of)
            if section.reward == "aesthetic":
                return Aesthetic(clip, empty_head(clip.width))
            return _text_score(section, clip)
        case "image_reward":
            return empty_image_reward(section.text, dtype)
        case "reference" if section.model:
            clip = clips.of(section, clip_of)
            return LikenessByClip(clip, torch.zeros(clip.width))
        case "reference":
            return likeness_by_color([torch.zeros(3, 1, 1)])
        case "function":
            return _Mean(section.has_gradient)
        case _:
            return _formula(section)


class _Clips:
    """The CLIPs of some rewards, each loaded once."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[object, ...], Clip] = {}

    def of(self, section: Section, load: Callable[..., Clip]) -> Clip:
        """That of a reward, with what reads texts if it needs that. load: told whether to read
        texts.
        """
        texts = section.reward in READS_TEXT
        # Of a folder, which file is taken depends on the reward.
        key = (section.model, USUAL.get(section.reward))
        known = self._loaded.get(key)
        if known is None or (texts and known.text is None):
            clip = load(texts=texts)
            known = clip if known is None else replace(clip, vision=known.vision)
            self._loaded[key] = known
        return known if texts else replace(known, text=None, tokenizer=None)


@dataclass(frozen=True)
class _Mean:
    """Stands in for a function that is not run."""

    has_gradient: bool

    def own_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        del prompts
        return images.mean(dim=(1, 2, 3))


def _text_score(section: Section, clip: Clip) -> TextScore:
    """A score of CLIP's as its authors' programs give it: see the file that computes it."""
    text, unlike = section.text, section.unlike
    match section.reward:
        case "pickscore":
            return TextScore(clip, clip.scale, text, unlike)
        case "hpsv2":
            return TextScore(clip, 1.0, text, unlike, fit="pad")
        case _:
            return TextScore(clip, PERCENT, text, unlike)


def _formula(section: Section) -> Reward:
    """Those that need no network."""
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


def _files(section: Section, *, offline: bool, tell: Tell) -> NetworkFiles:
    usual = USUAL.get(section.reward, ())
    return find_network(section.model, usual=usual, offline=offline, tell=tell)


def _empty_clip(section: Section, *, texts: bool, dtype: torch.dtype) -> Clip:
    try:
        files = _files(section, offline=True, tell=_to_nobody)
        return empty_clip(files, texts=texts, dtype=dtype)
    except UserError:
        name: Published = "vit-h-14" if section.reward in _LARGE else "vit-l-14"
        return published_clip(name, texts=texts, dtype=dtype)


def _to_nobody(words: str) -> None:
    del words
