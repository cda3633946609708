"""Where a VAE's tensors are, in whatever file people have it."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from modules.formats.original.layout import prefix, recipes
from modules.formats.original.recipe import Recipe
from modules.formats.original.vae_names import modern_vae_name
from onetrainer.config.run.model import Base

MARK = "encoder.mid.block_1.norm1.weight"  # the original layout alone calls a tensor so


def vae_recipes(base: Base, ours: Iterable[str], present: Collection[str]) -> list[Recipe]:
    """How each tensor of a VAE is found in a file.

    ours: the VAE's names. present: those of the file, which may be a whole model in the original
    layout, a VAE of it without the prefix, or a VAE by diffusers' names, new or former.
    """
    start = prefix(base, "vae")
    if any(name.startswith(start) for name in present):
        return recipes(base, "vae", ours)
    if MARK in present:
        return [
            replace(recipe, original=recipe.original.removeprefix(start))
            for recipe in recipes(base, "vae", ours)
        ]
    stored = {modern_vae_name(name): name for name in present}
    return [Recipe(stored.get(name, name), (name,), "same") for name in ours]
