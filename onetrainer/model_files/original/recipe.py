"""How one tensor of a file is made of ours, by names and shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

How = Literal["same", "conv1x1", "transposed", "fused"]
Shape = Sequence[int]


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


def fits(recipe: Recipe, original: Shape, shapes: Sequence[Shape]) -> bool:
    """Return whether a tensor of this shape can be split into tensors of these shapes."""
    if recipe.how in ("same", "conv1x1"):
        # Some programs wrote linear layers as 1x1 convolutions, or the reverse.
        return _squeezed(original) == _squeezed(shapes[0])
    return tuple(original) == shape_in_file(recipe, shapes)


def shape_in_file(recipe: Recipe, shapes: Sequence[Shape]) -> tuple[int, ...]:
    """Return the shape that a tensor usually has in a file, of ours."""
    first = tuple(shapes[0])
    match recipe.how:
        case "same":
            return first
        case "conv1x1":
            return (*first, 1, 1)
        case "transposed":
            return first[::-1]
        case "fused":
            return (sum(shape[0] for shape in shapes), *first[1:])


def _squeezed(shape: Shape) -> tuple[int, ...]:
    """Return a shape without trailing ones, in which 1x1 convolutions and linear layers differ."""
    sides = tuple(shape)
    while len(sides) > 1 and sides[-1] == 1:
        sides = sides[:-1]
    return sides
