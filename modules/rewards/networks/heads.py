"""Linear layers one after another, as small reward heads are stored."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from torch import Size, Tensor, nn

from modules.formats.files.tensor_source import TensorReader, open_tensors
from onetrainer.errors import UserError

_WEIGHT = re.compile(r"(?:(?P<above>.*)\.)?weight")
_NUMBER = re.compile(r"\d+")
PUBLISHED = (1024, 128, 64, 16, 1)
"""What the layers of the published heads give. Between them stand dropouts, which only training
has, and no activations. Source: improved-aesthetic-predictor and ImageReward, their code."""


class Head(nn.Sequential):
    """(B, width) to (B, 1), linear layer by linear layer, in float32."""

    @property
    def width(self) -> int:
        """How many numbers it reads."""
        first = self[0]
        assert isinstance(first, nn.Linear)
        return first.in_features


def empty_head(width: int, sizes: Sequence[int] = PUBLISHED) -> Head:
    """A head without weights, on the meta device."""
    before = (width, *sizes)
    return Head(
        *(nn.Linear(there, here, device="meta") for there, here in zip(before, sizes, strict=False))
    )


def load_head(path: Path) -> Head:
    """The head in a file, whatever its layers are called: a single one, or several numbered ones.

    Raises UserError for a file that is no such head.
    """
    with open_tensors(path) as reader:
        return read_head(reader, reader.names, path)


def read_head(reader: TensorReader, names: Iterable[str], path: Path) -> Head:
    """The head that these tensors of a file are."""
    weights = sorted(
        (name for name in names if _WEIGHT.fullmatch(name) and len(reader.shape(name)) == 2),
        key=_numbers,
    )
    shapes = [reader.shape(name) for name in weights]
    if not _is_chain(shapes):
        raise UserError(
            f"{path.name}: this is no head of a reward",
            "Linear layers that end in a single number were expected",
            "Choose the file of the aesthetic predictor itself, not of its CLIP",
        )
    head = empty_head(shapes[0][1], [shape[0] for shape in shapes])
    state: dict[str, Tensor] = {}
    for place, name in enumerate(weights):
        bias = name.removesuffix("weight") + "bias"
        state[f"{place}.weight"] = reader.read_as(name, torch.float32)
        state[f"{place}.bias"] = (
            reader.read_as(bias, torch.float32).reshape(-1)
            if bias in reader
            else torch.zeros(shapes[place][0])
        )
    head.load_state_dict(state, assign=True)
    head.requires_grad_(False).eval()
    return head


def _numbers(name: str) -> tuple[list[int], str]:
    return [int(number) for number in _NUMBER.findall(name)], name


def _is_chain(shapes: Sequence[Size]) -> bool:
    if not shapes or shapes[-1][0] != 1:
        return False
    return all(before[0] == after[1] for before, after in pairwise(shapes))
