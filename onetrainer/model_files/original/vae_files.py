"""Names of a VAE's tensors in every kind of file."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from onetrainer.families.spec import ComponentSpec
from onetrainer.model_files.original.layout import recipes
from onetrainer.model_files.original.recipe import Recipe
from onetrainer.model_files.original.vae_names import modern_vae_name

ORIGINAL_MARKER = "encoder.mid.block_1.norm1.weight"  # a name only the original layout has


def vae_recipes(vae: ComponentSpec, ours: Iterable[str], present: Collection[str]) -> list[Recipe]:
    """Return the recipe of each tensor of a VAE for a file.

    ours: The VAE's names.
    present: Those of the file: a whole model in the original layout, a VAE of it without the
    prefix, or a VAE by diffusers' names, new or old.
    """
    start = vae.prefix
    if any(name.startswith(start) for name in present):
        return recipes(vae, ours)
    if ORIGINAL_MARKER in present:
        return [
            replace(recipe, original=recipe.original.removeprefix(start))
            for recipe in recipes(vae, ours)
        ]
    stored = {modern_vae_name(name): name for name in present}
    return [Recipe(stored.get(name, name), (name,), "same") for name in ours]
