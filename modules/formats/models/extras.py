"""Tensors of single files outside the components: markers, buffers, unused layers.

Other programs expect some of them; a file that was read keeps all of them when it is written.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from modules.formats.files.tensor_source import LazyTensor, as_lazy
from modules.formats.models.whole_model import Description
from modules.formats.original.layout import unused_names
from onetrainer.families.spec import FamilySpec
from onetrainer.model_files.original.recipe import Recipe
from onetrainer.model_files.prediction_hints import V_MARKER, ZERO_SNR_MARKER

EMA = "model_ema."
MODEL = "model."
LOGIT_SCALE = math.log(100)  # CLIP's limit in training. Source: Radford et al. 2021, 2.5
OLD_POSITIONS = "cond_stage_model.transformer.embeddings.position_ids"
_EXTRAS: Mapping[str, str] = {
    ".resblocks.": "an unused layer of the text encoder",
    "text_projection": "text projection",
    "logit_scale": "logit scale",
}
"""Descriptions of standard extras, by a part of their names."""
POSITIONS = "text_model.embeddings.position_ids"


def markers(description: Description) -> dict[str, Tensor]:
    """Return marker tensors of a model with v-prediction or a zero terminal SNR."""
    wanted = {
        V_MARKER: description.prediction == "v_prediction",
        ZERO_SNR_MARKER: description.zero_terminal_snr,
    }
    return {name: torch.zeros(0) for name, is_wanted in wanted.items() if is_wanted}


def ema_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of the EMA copy of a UNet's tensor.

    Source: CompVis/stable-diffusion, ldm/modules/ema.py.
    """
    name = recipe.original.removeprefix(MODEL).replace(".", "")
    return Recipe(EMA + name, recipe.ours, recipe.how)


def extra_names(names: Iterable[str], taken: Sequence[Recipe]) -> dict[str, str]:
    """Return every extra's name to write -> its name in the file.

    taken: The recipes of all components. EMA copies are no extras.
    """
    # The text encoder's tensors are written with the `text_model.` level.
    modern = {OLD_POSITIONS: OLD_POSITIONS.replace("embeddings.", "text_model.embeddings.")}
    extras = (n for n in unused_names(names, taken) if n not in (V_MARKER, ZERO_SNR_MARKER))
    return {modern.get(name, name): name for name in extras if not name.startswith(EMA)}


def is_schedule_table(name: str) -> bool:
    """Return whether an extra is a table of the noise schedule, which keeps its dtype."""
    return "." not in name


def is_position_ids(name: str) -> bool:
    """Return whether an extra holds position ids: 0 to 76 in every file, not worth a note."""
    return name.endswith(".position_ids")


def with_position_ids(extras: Mapping[str, LazyTensor]) -> tuple[dict[str, LazyTensor], list[str]]:
    """Return extras with the position ids that every CLIP has, and a note if a file's were others.

    Some programs cast them to a float type, in which the last ones are rounded, and train with it.
    """
    fixed, broken = dict(extras), list[str]()
    for name, tensor in extras.items():
        if is_position_ids(name) and tensor.shape:
            ids = torch.arange(tensor.shape[-1]).expand(tensor.shape).contiguous()
            broken += [] if torch.equal(tensor.read().double(), ids.double()) else [name]
            fixed[name] = as_lazy(ids)
    if not broken:
        return fixed, []
    return fixed, [
        f"Corrected {', '.join(broken)}: they were not 0, 1, 2 …, so that programs that read them"
        " place the words of a prompt wrongly. This program does not read them."
    ]


def standard_extras(
    spec: FamilySpec,
    components: Mapping[str, Mapping[str, Tensor | LazyTensor]],
    originals: Mapping[str, LazyTensor],
) -> dict[str, Tensor | LazyTensor]:
    """Return the extras of the family's published file, for a folder without extras.

    originals: All the components' tensors in the original layout.
    """
    added: dict[str, Tensor | LazyTensor] = {}
    for encoder in spec.encoders:
        component = encoder.component
        if component.names == "same" and component.has_text_level:
            table = components[component.folder]["text_model.embeddings.position_embedding.weight"]
            added[component.prefix + POSITIONS] = torch.arange(table.shape[0])[None]
        elif component.names == "open-clip" and encoder.has_projection:
            added[component.prefix + "logit_scale"] = torch.tensor(LOGIT_SCALE)
        elif component.names == "open-clip":
            added |= _open_clip_extras(component.prefix, originals)
    return added


def standard_extras_notes(names: Iterable[str]) -> list[str]:
    """Return notes for people on standard extras that were added, by their names."""
    noted = [name for name in names if not is_position_ids(name)]
    if not noted:
        return []
    labels = [text for part, text in _EXTRAS.items() if any(part in name for name in noted)]
    count = "1 standard tensor" if len(noted) == 1 else f"{len(noted)} standard tensors"
    return [
        f"Added {count} that single files have and folders do not ({', '.join(labels)});"
        " the model's weights are unchanged."
    ]


def _open_clip_extras(
    start: str, originals: Mapping[str, LazyTensor]
) -> dict[str, Tensor | LazyTensor]:
    """Return the layer after the last one used, and CLIP's tensors for images.

    Programs that build the whole encoder fail without them; they affect no results.
    """
    blocks = {
        int(found[1])
        for name in originals
        if (found := re.match(re.escape(start) + r"transformer\.resblocks\.(\d+)\.", name))
    }
    last = max(blocks)
    here, after = (f"{start}transformer.resblocks.{number}." for number in (last, last + 1))
    width = originals[start + "ln_final.weight"].shape[0]
    copies = {
        name.replace(here, after, 1): tensor
        for name, tensor in originals.items()
        if name.startswith(here)
    }
    return copies | {
        start + "text_projection": torch.eye(width),
        start + "logit_scale": torch.tensor(LOGIT_SCALE),
    }
