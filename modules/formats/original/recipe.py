"""Conversion of one tensor between the original layout and ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Size, Tensor

How = Literal["same", "conv1x1", "transposed", "fused"]


@dataclass(frozen=True)
class Recipe:
    """One tensor of the original layout.

    Attributes:
        original: Its full name.
        ours: The tensors it is made of, by diffusers' and transformers' names.
        how: "same": unchanged. "conv1x1": a linear layer's weight, (out, in), as that of a 1x1
            convolution, (out, in, 1, 1). "transposed": a transposed matrix. "fused": several
            tensors concatenated along their rows.
    """

    original: str
    ours: tuple[str, ...]
    how: How


def merge(recipe: Recipe, tensors: Sequence[Tensor]) -> Tensor:
    """Return the original's tensor, of ours in the recipe's order; may share their memory."""
    match recipe.how:
        case "same":
            return tensors[0]
        case "conv1x1":
            return tensors[0][:, :, None, None]
        case "transposed":
            return tensors[0].T
        case "fused":
            return torch.cat(list(tensors))


def split(recipe: Recipe, original: Tensor, shapes: Sequence[Size]) -> list[Tensor]:
    """Return our tensors, in the recipe's order; may share the original's memory.

    Linear layers stored as 1x1 convolutions, and the reverse, are reshaped.

    shapes: Of ours.

    Raises:
        ValueError: If the tensor cannot be split into these shapes.
    """
    if not fits(recipe, original.shape, shapes):
        raise ValueError(f"{recipe.original}: {tuple(original.shape)} for {shapes}")
    match recipe.how:
        case "same" | "conv1x1":
            return [original.reshape(shapes[0])]
        case "transposed":
            return [original.T]
        case "fused":
            return list(torch.split(original, [shape[0] for shape in shapes]))


def fits(recipe: Recipe, original: Size, shapes: Sequence[Size]) -> bool:
    """Return whether a tensor of this shape can be split into tensors of these shapes."""
    match recipe.how:
        case "same" | "conv1x1":
            # Some programs wrote linear layers as 1x1 convolutions, or the reverse.
            return _squeezed(original) == _squeezed(shapes[0])
        case "transposed":
            return original == shapes[0][::-1]
        case "fused":
            rows = sum(shape[0] for shape in shapes)
            return all(original == Size((rows, *shape[1:])) for shape in shapes)


def _squeezed(shape: Size) -> tuple[int, ...]:
    """Return a shape without trailing ones, in which 1x1 convolutions and linear layers differ."""
    sides = tuple(shape)
    while len(sides) > 1 and sides[-1] == 1:
        sides = sides[:-1]
    return sides
