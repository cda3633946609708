"""Opening of a whole model from a folder or a single file without reading its weights yet."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from modules.formats.files.component_configs import Config, read_config
from modules.formats.files.tensor_source import LazyTensor, open_tensors
from modules.formats.models.component_shapes import shapes_of
from modules.formats.models.extras import (
    EMA,
    ema_recipe,
    extra_names,
    is_position_ids,
    with_position_ids,
)
from modules.formats.models.model_folder import EXTRAS_FILE, unwritten_components
from modules.formats.models.whole_model import Description, WholeModel, drop_source_path
from modules.formats.original.layout import open_component
from onetrainer.errors import UserError
from onetrainer.families.spec import ComponentSpec
from onetrainer.messages.formatting import counted, some
from onetrainer.model_files.folders import weight_files
from onetrainer.model_files.kinds import ModelFile
from onetrainer.model_files.original.layout import in_spelling, recipes
from onetrainer.model_files.original.recipe import Recipe
from onetrainer.model_files.original.vae_files import vae_recipes

Tensors = Mapping[str, LazyTensor]


@dataclass(frozen=True)
class StoredModel:
    """An open model, and notes for people on where its tensors come from."""

    model: WholeModel
    notes: list[str]


@dataclass(frozen=True)
class StoredVae:
    """An open VAE: its config, and its tensors by our names."""

    config: Config
    tensors: Tensors


@contextmanager
def open_stored_vae(path: Path, component: ComponentSpec, config: Config) -> Iterator[StoredVae]:
    """Open a VAE whose tensors are read when they are needed within the context.

    path: Its folder, a file in either layout, or a whole model in either layout.
    config: Assumed for files, which have none.

    Raises:
        UserError: If tensors are missing.
    """
    with ExitStack() as stack:
        yield _open_vae(stack, path, component, config)


@contextmanager
def open_stored_model(
    found: ModelFile, description: Description, *, vae: Path | None = None, ema: bool = False
) -> Iterator[StoredModel]:
    """Open a whole model whose tensors are read when they are needed within the context.

    vae: File or folder of another VAE; None for the model's own.
    ema: Use the UNet's EMA weights.

    Raises:
        UserError: If tensors are missing.
    """
    spec = description.family
    component_names = [name for name in spec.components if not (vae and name == "vae")]
    with ExitStack() as stack:
        if found.layout == "folder":
            stored = _open_folder(stack, found.path, description, component_names, ema=ema)
        else:
            stored = _open_file(stack, found.path, description, component_names, ema=ema)
        if vae is not None:
            opened = _open_vae(stack, vae, spec.vae, description.configs["vae"])
            model = stored.model
            configs = {**model.description.configs, "vae": opened.config}
            stored = replace(
                stored,
                model=replace(
                    model,
                    description=replace(model.description, configs=configs),
                    components={**model.components, "vae": opened.tensors},
                ),
            )
            stored.notes.append(f"Used the VAE of {vae.name}.")
        yield stored


def _open_file(
    stack: ExitStack,
    path: Path,
    description: Description,
    component_names: Sequence[str],
    *,
    ema: bool,
) -> StoredModel:
    reader = stack.enter_context(open_tensors(path))
    components_by_name = description.family.components
    shapes = {
        name: shapes_of(components_by_name[name], config)
        for name, config in description.configs.items()
    }
    plain = {
        name: in_spelling(recipes(components_by_name[name], shapes[name]), reader.names)
        for name in shapes
    }
    chosen = plain | ({"unet": [ema_recipe(recipe) for recipe in plain["unet"]]} if ema else {})
    ema_count = sum(name.startswith(EMA) for name in reader.names)
    if ema and not ema_count:
        raise _no_ema_error(path)
    components = {
        name: open_component(reader, chosen[name], shapes[name]) for name in component_names
    }
    taken = [recipe for component_recipes in plain.values() for recipe in component_recipes]
    extras = {name: reader.lazy(old) for name, old in extra_names(reader.names, taken).items()}
    extras, position_notes = with_position_ids(extras)
    notes = _extra_notes(extras) + position_notes + _ema_notes(ema_count, ema=ema)
    return StoredModel(WholeModel(description, components, extras, reader.metadata), notes)


def _open_folder(
    stack: ExitStack,
    path: Path,
    description: Description,
    component_names: Sequence[str],
    *,
    ema: bool,
) -> StoredModel:
    if ema:
        raise _no_ema_error(path)
    components = {
        name: _folder_component(
            stack, path / name, description.family.components[name], description.configs[name]
        )
        for name in component_names
    }
    unwritten = unwritten_components(description.index, components)
    notes = ["Left out " + ", ".join(unwritten) + "."] if unwritten else []
    if not (path / EXTRAS_FILE).is_file():
        return StoredModel(WholeModel(description, components, None, {}), notes)
    reader = stack.enter_context(open_tensors(path / EXTRAS_FILE))
    extras, position_notes = with_position_ids({name: reader.lazy(name) for name in reader.names})
    notes += _extra_notes(extras) + position_notes
    return StoredModel(WholeModel(description, components, extras, reader.metadata), notes)


def _folder_component(
    stack: ExitStack, folder: Path, component: ComponentSpec, config: Config
) -> Tensors:
    """Open a component's tensors by our names, whichever library version wrote them."""
    reader = stack.enter_context(open_tensors(weight_files(folder, component.weights)))
    shapes = shapes_of(component, config)
    if component.names == "vae":  # has names of several versions
        return open_component(reader, vae_recipes(component, shapes, reader.names), shapes)
    return open_component(reader, [Recipe(name, (name,), "same") for name in shapes], shapes)


def _open_vae(stack: ExitStack, path: Path, component: ComponentSpec, config: Config) -> StoredVae:
    """Open a VAE: a folder, a file in either layout, or the VAE of a whole model.

    config: Assumed for files, which have none.
    """
    if path.is_dir():
        folder = path / "vae" if (path / "vae").is_dir() else path
        config = drop_source_path(read_config(folder / "config.json"))
        return StoredVae(config, _folder_component(stack, folder, component, config))
    reader = stack.enter_context(open_tensors(path))
    shapes = shapes_of(component, config)
    found = vae_recipes(component, shapes, reader.names)
    return StoredVae(config, open_component(reader, found, shapes))


def _extra_notes(extras: Tensors) -> list[str]:
    noted = [name for name in extras if not is_position_ids(name)]
    if not noted:
        return []
    count = counted(len(noted), "tensor")
    return [f"Kept {count} that no component uses: {some(noted, len(noted))}."]


def _ema_notes(count: int, *, ema: bool) -> list[str]:
    if ema:
        return ["Used the EMA weights of the UNet."]
    return [f"Left out {count} EMA weights."] if count else []


def _no_ema_error(path: Path) -> UserError:
    return UserError(
        f"{path.name}: the file has no EMA weights",
        f"Expected tensors whose names begin with {EMA}",
        "Turn off the use of EMA weights, or choose the model's full file",
    )
