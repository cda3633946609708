"""Names of each component's tensors in the original layout, for every base, and finding them.

Each name is derived from ours (those of diffusers and transformers), so one rule serves reading and
writing, models of every width and the tests' tiny ones.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onetrainer.families.spec import ComponentSpec
from onetrainer.model_files.original.open_clip import (
    ORIGINAL_PROJECTION,
    PROJECTION,
    open_clip_recipes,
)
from onetrainer.model_files.original.recipe import Recipe, Shape, fits, shape_in_file
from onetrainer.model_files.original.unet_names import unet_names
from onetrainer.model_files.original.vae_names import is_attention_matrix, vae_name

TEXT_LEVEL = "text_model."  # some old files omit this level


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


def in_spelling(component_recipes: Iterable[Recipe], present: Collection[str]) -> list[Recipe]:
    """Return the recipes by the names that a file has, if other programs spell them otherwise.

    A projection named as transformers names it is that of transformers, which is not transposed.
    Source: comfyanonymous/ComfyUI, comfy/utils.py (`clip_text_transformers_convert`).
    """
    found = []
    for recipe in component_recipes:
        other = recipe.original.removesuffix(ORIGINAL_PROJECTION) + PROJECTION
        is_other = recipe.how == "transposed" and recipe.original not in present
        found.append(
            replace(recipe, original=other, how="same") if is_other and other in present else recipe
        )
    return found


def spellings(recipe: Recipe) -> tuple[str, str]:
    """Return the names that a recipe's original may have in a file."""
    return recipe.original, recipe.original.replace(TEXT_LEVEL, "", 1)


@dataclass(frozen=True)
class Found:
    """A component's tensors in a file.

    stored: The name of each recipe's original, without those that are missing or do not fit.
    missing: Names that the file lacks. misfits: Names with the shape there and the one expected.
    """

    stored: Sequence[str]
    missing: Sequence[str]
    misfits: Sequence[tuple[str, Shape, Shape]]

    @property
    def problem(self) -> str:
        """What is wrong, as a clause; "" if nothing is."""
        if self.misfits and not self.missing:
            name, shape, expected = self.misfits[0]
            more = f", and {len(self.misfits) - 1} more" if len(self.misfits) > 1 else ""
            return f"{name} has the shape {list(shape)}, not {list(expected)}{more}"
        if not self.missing:
            return ""
        count, wrong = len(self.missing), len(self.misfits)
        others = f" and {wrong} of another shape" if wrong else ""
        tensors = "1 tensor is" if count == 1 else f"{count:,} tensors are"
        return f"{tensors} missing{others}, first {self.missing[0]}"


def find_tensors(
    present: Mapping[str, Shape],
    component_recipes: Sequence[Recipe],
    shapes: Mapping[str, Shape],
) -> Found:
    """Return where a component's tensors are in a file, with or without `text_model.`.

    present: The shapes in the file. shapes: Of ours.
    """
    stored, missing, misfits = list[str](), list[str](), list[tuple[str, Shape, Shape]]()
    for recipe in component_recipes:
        name = next((spelling for spelling in spellings(recipe) if spelling in present), None)
        wanted = [shapes[our_name] for our_name in recipe.ours]
        if name is None:
            missing.append(recipe.original)
        elif not fits(recipe, present[name], wanted):
            misfits.append((name, present[name], shape_in_file(recipe, wanted)))
        else:
            stored.append(name)
    return Found(stored, missing, misfits)
