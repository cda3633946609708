"""Whether a model is whole: every tensor of every network, in its shape, by headers alone.

The names and shapes are those of the published models, and of models whose configs state the same
sizes. Those of other sizes are compared where their networks are built, before any weight is read.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from onetrainer.families.registry import family_spec
from onetrainer.families.spec import ComponentSpec, FamilySpec
from onetrainer.model_files.original.layout import find_tensors, in_spelling, recipes
from onetrainer.model_files.original.open_clip import ORIGINAL_PROJECTION
from onetrainer.model_files.original.recipe import Recipe, shape_in_file
from onetrainer.model_files.original.vae_files import vae_recipes
from onetrainer.tensor_files.entries import TensorTable
from onetrainer.tensor_files.hollow import hollow_weights

Shapes = Mapping[str, Sequence[int]]
Problems = tuple[tuple[str, str], ...]
"""Labels of components, each with what is wrong with it."""
VAE, UNET = "VAE", "UNet"

_SIZES = (
    *("in_channels", "out_channels", "latent_channels", "block_out_channels", "layers_per_block"),
    *("down_block_types", "up_block_types", "mid_block_type", "cross_attention_dim"),
    *("use_linear_projection", "transformer_layers_per_block", "addition_embed_type"),
    *("projection_class_embeddings_input_dim", "class_embed_type", "num_class_embeds"),
    *("time_cond_proj_dim", "encoder_hid_dim", "encoder_hid_dim_type", "attention_type"),
    *("hidden_size", "intermediate_size", "num_hidden_layers", "max_position_embeddings"),
    "vocab_size",
)
"""The settings of a config that names and shapes follow from."""


def labels_of(spec: FamilySpec) -> dict[str, ComponentSpec]:
    """Return the components of a family by their labels for people."""
    return {UNET: spec.unet, VAE: spec.vae, **{e.label: e.component for e in spec.encoders}}


def whole_file(spec: FamilySpec) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a published model's single file, by its name there."""
    whole = dict[str, tuple[int, ...]]()
    for component in labels_of(spec).values():
        shapes = _published(spec, component.folder)
        for recipe in recipes(component, shapes):
            whole[recipe.original] = shape_in_file(recipe, [shapes[name] for name in recipe.ours])
    return whole


def problems_in_file(
    table: TensorTable, spec: FamilySpec, *, without: Sequence[str], is_other_size: bool
) -> Problems:
    """Return what a single file's components lack.

    without: Labels of those that it has not. is_other_size: Whether it is of other sizes than the
    published models.
    """
    found = list[tuple[str, str]]()
    for label, component in labels_of(spec).items():
        shapes = _published(spec, component.folder)
        if label in without:
            continue
        if is_other_size or not shapes:
            own = [name for name in table.entries if name.startswith(component.prefix)]
            # The published SD 2 has one of no use, nearly all of which is zero.
            own = [name for name in own if not name.endswith(ORIGINAL_PROJECTION)]
            found += _hollow(label, [table], own)
            continue
        if component.names == "vae":
            wanted = vae_recipes(component, shapes, table.entries)
        else:
            wanted = in_spelling(recipes(component, shapes), table.entries)
        found += _problems(label, [table], wanted, shapes)
    return tuple(found)


def problems_in_folder(
    label: str,
    tables: Sequence[TensorTable],
    spec: FamilySpec,
    component: ComponentSpec,
    config: Mapping[str, Any],
) -> Problems:
    """Return what a component's folder lacks, if its config states the published sizes."""
    shapes = _published(spec, component.folder)
    if not shapes or _is_other_size(spec, component, config):
        names = [name for table in tables for name in table.entries]
        return _hollow(label, tables, names)
    present = [name for table in tables for name in table.entries]
    if component.names == "vae":
        wanted = vae_recipes(component, shapes, present)
    else:
        wanted = [Recipe(name, (name,), "same") for name in shapes]
    return _problems(label, tables, wanted, shapes)


def _problems(
    label: str, tables: Sequence[TensorTable], wanted: Sequence[Recipe], shapes: Shapes
) -> Problems:
    present = {name: entry.shape for table in tables for name, entry in table.entries.items()}
    found = find_tensors(present, wanted, shapes)
    if found.problem:
        return ((label, found.problem),)
    return _hollow(label, tables, found.stored)


def _hollow(label: str, tables: Sequence[TensorTable], names: Sequence[str]) -> Problems:
    hollow = [name for table in tables for name in hollow_weights(table, set(names))]
    if not hollow:
        return ()
    return ((label, f"{hollow[0]} and others hold nothing but zeros, as in half a download"),)


def _is_other_size(spec: FamilySpec, component: ComponentSpec, config: Mapping[str, Any]) -> bool:
    published = dict(_config(spec.name, component.folder))
    if component is spec.unet:
        published["in_channels"] = spec.unet_channels
    sizes = _SIZES + (("projection_dim",) if "Projection" in component.network else ())
    return any(config.get(key, published.get(key)) != published.get(key) for key in sizes)


def _published(spec: FamilySpec, folder: str) -> Shapes:
    """Return the shapes of a component of the published models by our names; empty if unknown."""
    shapes = dict(_all_shapes(spec.name).get(folder, {}))
    if folder == spec.unet.folder and "conv_in.weight" in shapes:
        outputs, _, *kernel = shapes["conv_in.weight"]
        shapes["conv_in.weight"] = [outputs, spec.unet_channels, *kernel]
    return shapes


@cache
def _all_shapes(family: str) -> Mapping[str, Shapes]:
    file = family_spec(family).configs / "shapes.json"
    shapes: Mapping[str, Shapes] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return shapes


@cache
def _config(family: str, folder: str) -> Mapping[str, Any]:
    file = family_spec(family).configs / folder / "config.json"
    config: Mapping[str, Any] = json.loads(file.read_text("utf-8"))
    return config
