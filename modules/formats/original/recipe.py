"""Conversion of one tensor between the original layout and ours."""

from collections.abc import Sequence

import torch
from torch import Size, Tensor

from onetrainer.model_files.original.recipe import Recipe, fits


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
