"""A whole model as one file in the original layout, as most programs expect it."""

from collections.abc import Mapping
from pathlib import Path

import torch

from modules.formats.files.files import write_safetensors
from modules.formats.files.tensor_source import LazyTensor, converted
from modules.formats.models.extras import is_schedule_table, markers, standard_extras
from modules.formats.models.whole_model import Tensors, WholeModel
from modules.formats.original.layout import recipes, to_original
from onetrainer.config.run.model import base_of


def write_single_file(
    path: Path,
    model: WholeModel,
    *,
    dtype: torch.dtype | None,
    metadata: Mapping[str, str],
    overwrite: bool,
) -> list[str]:
    """Writes the model, complete or not at all, with its hashes.

    dtype: of every weight; None keeps each tensor's own. Returns the names of the tensors that
    were made up, because the model knows of no extras. Raises UserError, before anything is
    written, if the path is taken or the disk has too little room; later, if the dtype cannot hold
    a weight.
    """
    state = original_state(model)
    extras, invented = model.extras, list[str]()
    if extras is None:
        extras = standard_extras(base_of(model.description.family), model.components, state)
        invented = sorted(extras)
    tensors = {name: converted(tensor, dtype, name=name) for name, tensor in state.items()}
    tensors |= convert_extras(extras, dtype) | convert_extras(markers(model.description), None)
    write_safetensors(path, tensors, metadata, overwrite=overwrite, hashes=True)
    return invented


def original_state(model: WholeModel) -> dict[str, LazyTensor]:
    """The components' tensors in the original layout; each is made when it is needed."""
    base = base_of(model.description.family)
    state: dict[str, LazyTensor] = {}
    for component, tensors in model.components.items():
        state |= to_original(recipes(base, component, tensors), tensors)
    return state


def convert_extras(extras: Tensors, dtype: torch.dtype | None) -> dict[str, LazyTensor]:
    """Extras as they are written: weights in the dtype, tables of the noise schedule in theirs."""
    return {
        name: converted(tensor, None if is_schedule_table(name) else dtype, name=name)
        for name, tensor in extras.items()
    }
