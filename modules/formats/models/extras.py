"""What single files hold besides the components: markers, buffers, layers that nobody uses.

Other programs expect some of it, and a file that was read keeps all of it when it is written.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from modules.formats.files.tensor_source import LazyTensor
from modules.formats.models.whole_model import Description
from modules.formats.original.layout import Component, leftovers, prefix
from modules.formats.original.recipe import Recipe
from onetrainer.config.run.model import Base
from onetrainer.model_files.signs import V_MARKER, ZERO_SNR_MARKER

EMA = "model_ema."
MODEL = "model."
LOGIT_SCALE = math.log(100)  # where CLIP's training stops it. Source: Radford et al. 2021, 2.5
OLD_POSITIONS = "cond_stage_model.transformer.embeddings.position_ids"
_EXTRAS: Mapping[str, str] = {
    ".resblocks.": "a layer of the text encoder that no program uses",
    "text_projection": "text projection",
    "logit_scale": "logit scale",
}
"""What made-up extras are called, by a part of their names."""
POSITIONS = "text_model.embeddings.position_ids"


def markers(description: Description) -> dict[str, Tensor]:
    """The markers of a model that does not predict noise, or whose schedule ends in noise alone."""
    wanted = {
        V_MARKER: description.prediction == "v_prediction",
        ZERO_SNR_MARKER: description.zero_terminal_snr,
    }
    return {name: torch.zeros(0) for name, is_wanted in wanted.items() if is_wanted}


def ema_recipe(recipe: Recipe) -> Recipe:
    """Where the average of a UNet's tensor is.

    Source: CompVis/stable-diffusion, ldm/modules/ema.py.
    """
    name = recipe.original.removeprefix(MODEL).replace(".", "")
    return Recipe(EMA + name, recipe.ours, recipe.how)


def extra_names(names: Iterable[str], taken: Sequence[Recipe]) -> dict[str, str]:
    """Every extra by the name that it is written under -> the name it has in the file.

    taken: the recipes of all components. An average's copies are no extras.
    """
    found = (n for n in leftovers(names, taken) if n not in (V_MARKER, ZERO_SNR_MARKER))
    return {_modern(name): name for name in found if not name.startswith(EMA)}


def is_schedule_table(name: str) -> bool:
    """Whether an extra is a table of the noise schedule, which keeps its own precision."""
    return "." not in name


def is_position_ids(name: str) -> bool:
    """Whether an extra holds position ids: 0 to 76 in every file, of which nothing is told."""
    return name.endswith(".position_ids")


def standard_extras(
    base: Base,
    components: Mapping[Component, Mapping[str, Tensor | LazyTensor]],
    originals: Mapping[str, LazyTensor],
) -> dict[str, Tensor | LazyTensor]:
    """The extras that the published file of this base has, for a folder that knows none.

    originals: all the components' tensors in the original layout.
    """
    match base:
        case "sd15":
            return _positions(base, components)
        case "sd2":
            return _open_clip_extras(originals)
        case "sdxl":
            start = prefix(base, "text_encoder_2")
            return _positions(base, components) | {start + "logit_scale": torch.tensor(LOGIT_SCALE)}


def standard_extras_notes(names: Iterable[str]) -> list[str]:
    """What a person should know of the extras that were made up, by their names."""
    told = [name for name in names if not is_position_ids(name)]
    if not told:
        return []
    kinds = [words for part, words in _EXTRAS.items() if any(part in name for name in told)]
    count = "1 standard tensor" if len(told) == 1 else f"{len(told)} standard tensors"
    return [
        f"Added {count} that single files have and folders do not ({', '.join(kinds)});"
        " no weights of the model are invented."
    ]


def _positions(
    base: Base, components: Mapping[Component, Mapping[str, Tensor | LazyTensor]]
) -> dict[str, Tensor | LazyTensor]:
    table = components["text_encoder"]["text_model.embeddings.position_embedding.weight"]
    return {prefix(base, "text_encoder") + POSITIONS: torch.arange(table.shape[0])[None]}


def _open_clip_extras(originals: Mapping[str, LazyTensor]) -> dict[str, Tensor | LazyTensor]:
    """SD 2's files hold a layer after the last one that is used, and what CLIP needs for pictures.

    Programs that build the whole encoder fail without; nothing that they compute depends on it.
    """
    start = prefix("sd2", "text_encoder")
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


def _modern(name: str) -> str:
    """With the `text_model.` level that the text encoder's tensors are written with."""
    return prefix("sd15", "text_encoder") + POSITIONS if name == OLD_POSITIONS else name
