"""Names of each component's tensors in the original layout, for every base.

Each name is derived from ours (those of diffusers and transformers), so one rule serves reading and
writing, models of every width and the tests' tiny ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Size, Tensor

from modules.formats.files.tensor_source import LazyTensor, TensorReader, combine_lazily
from modules.formats.original.open_clip import open_clip_recipes
from modules.formats.original.recipe import Recipe, fits, merge, split
from modules.formats.original.vae_names import is_attention_matrix, vae_name
from onetrainer.errors import UserError
from onetrainer.families.spec import ComponentSpec
from onetrainer.messages.formatting import counted
from onetrainer.model_files.unet_names import unet_names

TEXT_LEVEL = "text_model."  # some old files omit this level
# Scale factors of a layer's weights that are stored as fp8. Source: ComfyUI's names of 2024, 2025.
WEIGHT, SCALES = ".weight", (".scale_weight", ".weight_scale")


def recipes(component: ComponentSpec, ours: Iterable[str]) -> list[Recipe]:
    """Return how each tensor of a component's original is made of ours, sorted by its name.

    ours: All the component's names; text encoders' with their `text_model.` level.

    Raises:
        KeyError: For a name that the layout does not have.
    """
    start, names = component.prefix, set(ours)
    match component.names:
        case "unet":
            component_recipes = [
                Recipe(start + name, (our_name,), "same")
                for our_name, name in unet_names(names).items()
            ]
        case "vae":
            component_recipes = [
                Recipe(
                    start + vae_name(our_name),
                    (our_name,),
                    "conv1x1" if is_attention_matrix(our_name) else "same",
                )
                for our_name in names
            ]
        case "open-clip":
            component_recipes = open_clip_recipes(names, start)
        case "same":
            component_recipes = [Recipe(start + name, (name,), "same") for name in names]
    return sorted(component_recipes, key=lambda recipe: recipe.original)


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
            state[name] = combine_lazily([reader.lazy(stored)], part)
    return state


def find_stored_names(
    reader: TensorReader, component_recipes: Sequence[Recipe], shapes: Mapping[str, Size]
) -> list[str]:
    """Return the name that each recipe's original has in a file, with or without `text_model.`.

    Raises:
        UserError: If tensors are missing or have another shape, or for scaled weights.
    """
    stored, missing = [], []
    for recipe in component_recipes:
        name = next((spelling for spelling in _spellings(recipe) if spelling in reader), None)
        wanted = [shapes[our_name] for our_name in recipe.ours]
        if name is None or not fits(recipe, reader.shape(name), wanted):
            missing.append(recipe.original)
        else:
            stored.append(name)
    if missing:
        raise UserError(
            f"{reader.tables[0].path}: {counted(len(missing), 'tensor')} missing or of another"
            f" shape, first {missing[0]}",
            "Expected a complete model",
            "Choose another file: this one may be damaged, or for another model family",
            failure="model file",
        )
    _refuse_scaled(reader, stored)
    return stored


def unused_names(names: Iterable[str], component_recipes: Iterable[Recipe]) -> list[str]:
    """Return the names in a file that no recipe uses, sorted."""
    taken = {name for recipe in component_recipes for name in _spellings(recipe)}
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


def _spellings(recipe: Recipe) -> tuple[str, str]:
    return recipe.original, recipe.original.replace(TEXT_LEVEL, "", 1)
