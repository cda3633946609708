"""Reading and writing of a component's tensors by the names of any layout."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Size, Tensor

from modules.formats.files.tensor_source import LazyTensor, TensorReader, combine_lazily
from modules.formats.original.recipe import merge, split
from onetrainer.errors import UserError
from onetrainer.model_files.original.layout import find_tensors, spellings
from onetrainer.model_files.original.recipe import Recipe

# Scale factors of a layer's weights that are stored as fp8. Source: ComfyUI's names of 2024, 2025.
WEIGHT, SCALES = ".weight", (".scale_weight", ".weight_scale")


def to_original(
    component_recipes: Sequence[Recipe], state: Mapping[str, Tensor | LazyTensor]
) -> dict[str, LazyTensor]:
    """Return a component's tensors in the original layout as lazy tensors."""
    return {
        recipe.original: combine_lazily(
            [state[name] for name in recipe.ours], partial(merge, recipe)
        )
        for recipe in component_recipes
    }


def read_component(
    reader: TensorReader,
    component_recipes: Sequence[Recipe],
    shapes: Mapping[str, Size],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> dict[str, Tensor]:
    """Read a component's tensors by our names, one by one straight to the device.

    shapes: Of ours.

    Raises:
        UserError: If tensors are missing, before anything is read.
    """
    state: dict[str, Tensor] = {}
    for recipe, stored in zip(
        component_recipes, find_stored_names(reader, component_recipes, shapes), strict=True
    ):
        original = reader.read_as(stored, dtype)
        require_numbers(reader, stored, original)
        # In separate memory: tensors that are fused in the file are freed and changed separately.
        copies = recipe.how in ("fused", "transposed")
        parts = split(recipe, original, [shapes[name] for name in recipe.ours])
        for name, part in zip(recipe.ours, parts, strict=True):
            state[name] = part.to(device, copy=copies, memory_format=torch.contiguous_format)
    return state


def open_component(
    reader: TensorReader, component_recipes: Sequence[Recipe], shapes: Mapping[str, Size]
) -> dict[str, LazyTensor]:
    """Return a component's tensors by our names in the file's dtype as lazy tensors.

    A fused tensor is read again for each of its parts.

    Raises:
        UserError: If tensors are missing.
    """
    state: dict[str, LazyTensor] = {}
    for recipe, stored in zip(
        component_recipes, find_stored_names(reader, component_recipes, shapes), strict=True
    ):
        wanted = [shapes[name] for name in recipe.ours]
        for place, name in enumerate(recipe.ours):
            part = partial(_split_part, recipe, shapes=wanted, place=place)
            state[name] = combine_lazily([_lazy(reader, stored)], part)
    return state


def find_stored_names(
    reader: TensorReader, component_recipes: Sequence[Recipe], shapes: Mapping[str, Size]
) -> list[str]:
    """Return the name that each recipe's original has in a file, with or without `text_model.`.

    Raises:
        UserError: If tensors are missing or have another shape, or for scaled weights.
    """
    present = {name: reader.shape(name) for name in reader.names}
    found = find_tensors(present, component_recipes, shapes)
    if found.problem:
        raise UserError(
            f"{reader.tables[0].path}: {found.problem}",
            "Expected a complete model",
            "Choose another file: this one may be damaged, or for another model family",
            failure="model file",
        )
    _refuse_scaled(reader, found.stored)
    return list(found.stored)


def require_numbers(reader: TensorReader, name: str, tensor: Tensor) -> None:
    """Raise UserError for NaN and infinity in a tensor that was read."""
    if not tensor.is_floating_point() or not tensor.numel():
        return
    wide = tensor if tensor.dtype.itemsize > 1 else tensor.float()  # fp8 has no minimum
    low, high = wide.aminmax()  # five times as fast as isfinite, and NaN is NaN here too
    if bool(low.isfinite() & high.isfinite()):
        return
    stored = reader.dtype(name)
    what = "values that are no numbers (NaN or infinity)"
    if stored != tensor.dtype and bool(reader.read(name).float().isfinite().all()):
        what = f"values that are too large for {str(tensor.dtype).removeprefix('torch.')}"
    raise UserError(
        f"{reader.path(name)}: the tensor {name} has {what}",
        "Expected finite weights",
        "Choose another file, or another precision"
        if "too large" in what
        else "Download it again, or choose another one: it is damaged, or its training diverged",
        failure="model file",
    )


def _lazy(reader: TensorReader, name: str) -> LazyTensor:
    """Return a tensor that is read when it is needed, and refused if it has no numbers."""

    def read() -> Tensor:
        tensor = reader.read(name)
        require_numbers(reader, name, tensor)
        return tensor

    return LazyTensor(reader.dtype(name), reader.shape(name), read)


def unused_names(names: Iterable[str], component_recipes: Iterable[Recipe]) -> list[str]:
    """Return the names in a file that no recipe uses, sorted."""
    taken = {name for recipe in component_recipes for name in spellings(recipe)}
    return sorted(set(names) - taken)


def _refuse_scaled(reader: TensorReader, stored: Sequence[str]) -> None:
    """Raise UserError for scaled weights, which are useless without their scale."""
    scaled = [
        name
        for name in stored
        if name.endswith(WEIGHT)
        and any(name.removesuffix(WEIGHT) + scale in reader for scale in SCALES)
    ]
    if scaled:
        raise UserError(
            f"{reader.path(scaled[0]).name}: {len(scaled)} tensors are stored as scaled fp8, first"
            f" {scaled[0]}",
            "Expected weights in fp32, fp16, bf16 or plain fp8",
            "Choose the fp16 version of this model",
        )


def _split_part(
    recipe: Recipe, originals: Sequence[Tensor], *, shapes: Sequence[Size], place: int
) -> Tensor:
    return split(recipe, originals[0], shapes)[place]
