"""Writing of a whole model as one file in the original layout, as most programs expect it."""

from collections.abc import Mapping
from pathlib import Path

import torch

from modules.formats.files.files import write_safetensors
from modules.formats.files.tensor_source import LazyTensor, cast_lazily
from modules.formats.models.extras import is_schedule_table, markers, standard_extras
from modules.formats.models.stored_configs import configs_to_store
from modules.formats.models.whole_model import Tensors, WholeModel
from modules.formats.original.layout import to_original
from onetrainer.model_files.original.layout import recipes


def write_single_file(
    path: Path,
    model: WholeModel,
    *,
    dtype: torch.dtype | None,
    metadata: Mapping[str, str],
    overwrite: bool,
) -> list[str]:
    """Write the model, complete or not at all, with its hashes.

    dtype: Of every weight; None keeps each tensor's own.

    Returns:
        Names of the standard extras that were added if the model has none.

    Raises:
        UserError: Before writing, if the path exists or the disk has too little space; later, if
            the dtype cannot hold a weight.
    """
    state = original_state(model)
    extras, added = model.extras, list[str]()
    if extras is None:
        extras = standard_extras(model.description.family, model.components, state)
        added = sorted(extras)
    tensors = {name: cast_lazily(tensor, dtype, name=name) for name, tensor in state.items()}
    tensors |= convert_extras(extras, dtype) | convert_extras(markers(model.description), None)
    metadata = {**metadata, **configs_to_store(model.description)}
    write_safetensors(path, tensors, metadata, overwrite=overwrite, hashes=True)
    return added


def original_state(model: WholeModel) -> dict[str, LazyTensor]:
    """Return the components' tensors in the original layout as lazy tensors."""
    components = model.description.family.components
    state: dict[str, LazyTensor] = {}
    for component, tensors in model.components.items():
        state |= to_original(recipes(components[component], tensors), tensors)
    return state


def convert_extras(extras: Tensors, dtype: torch.dtype | None) -> dict[str, LazyTensor]:
    """Cast extras for writing; tables of the noise schedule keep their dtype."""
    return {
        name: cast_lazily(tensor, None if is_schedule_table(name) else dtype, name=name)
        for name, tensor in extras.items()
    }
