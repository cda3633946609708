"""Reward heads: chains of linear layers; and the LAION aesthetic score, a head on CLIP.

Source of the score: LAION-AI/aesthetic-predictor and
christophschuhmann/improved-aesthetic-predictor, 2022.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import torch
from torch import Size, Tensor, nn

from modules.formats.files.tensor_source import TensorReader, open_tensors
from modules.rewards.networks.clip import Clip
from onetrainer.errors import UserError

_WEIGHT = re.compile(r"(?:(?P<above>.*)\.)?weight")
_NUMBER = re.compile(r"\d+")
PUBLISHED = (1024, 128, 64, 16, 1)
"""Output widths of the layers of published heads. They have dropout between them, which only
training uses, and no activations. Source: improved-aesthetic-predictor and ImageReward, their code.
"""


class Head(nn.Sequential):
    """Linear layers from (B, width) to (B, 1), in float32."""

    @property
    def width(self) -> int:
        """The length of its inputs."""
        first = self[0]
        assert isinstance(first, nn.Linear)
        return first.in_features


@dataclass(frozen=True)
class Aesthetic:
    """How much people like an image's look, from about 1 to 10, by CLIP ViT-L/14's unit vector.

    Raises UserError if the head was trained for another CLIP.
    """

    clip: Clip
    head: Head

    def __post_init__(self) -> None:
        if self.head.width != self.clip.width:
            raise UserError(
                f"the head reads {self.head.width} numbers, this CLIP returns {self.clip.width}",
                "The published heads were trained on CLIP ViT-L/14, which returns 768",
                "Choose that CLIP as the network, or a head for this one",
            )

    has_gradient: ClassVar[bool] = True

    def extra_modules(self) -> nn.Module:
        return nn.ModuleList([self.clip.modules(), self.head]).eval()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        scores: Tensor = self.head(self.clip.embed_images(images))
        return scores[:, 0]


def empty_head(width: int, sizes: Sequence[int] = PUBLISHED) -> Head:
    """Build a head without weights, on the meta device."""
    widths = (width, *sizes)
    return Head(*(nn.Linear(before, after, device="meta") for before, after in pairwise(widths)))


def load_head(path: Path) -> Head:
    """Load the head of a file with any layer names: a single layer, or several numbered ones.

    Raises:
        UserError: The file is no such head.
    """
    with open_tensors(path) as reader:
        return read_head(reader, reader.names, path)


def read_head(reader: TensorReader, names: Iterable[str], path: Path) -> Head:
    """Load the head that these tensors of a file form."""
    weights = sorted(
        (name for name in names if _WEIGHT.fullmatch(name) and len(reader.shape(name)) == 2),
        key=lambda name: ([int(number) for number in _NUMBER.findall(name)], name),
    )
    shapes = [reader.shape(name) for name in weights]
    if not _is_chain(shapes):
        raise UserError(
            f"{path.name}: not a reward head",
            "Expected linear layers that end in a single number",
            "Choose the file of the aesthetic predictor itself, not of its CLIP",
        )
    head = empty_head(shapes[0][1], [shape[0] for shape in shapes])
    state: dict[str, Tensor] = {}
    for index, name in enumerate(weights):
        bias = name.removesuffix("weight") + "bias"
        state[f"{index}.weight"] = reader.read_as(name, torch.float32)
        state[f"{index}.bias"] = (
            reader.read_as(bias, torch.float32).reshape(-1)
            if bias in reader
            else torch.zeros(shapes[index][0])
        )
    head.load_state_dict(state, assign=True)
    head.requires_grad_(False).eval()
    return head


def _is_chain(shapes: Sequence[Size]) -> bool:
    if not shapes or shapes[-1][0] != 1:
        return False
    return all(before[0] == after[1] for before, after in pairwise(shapes))
