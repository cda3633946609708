"""What of a LoRA file's metadata follows from how the file is written."""

import json
from collections.abc import Iterable, Mapping

from modules.formats.embeddings.modelspec import IMPLEMENTATIONS, PREFIX, Layout
from modules.formats.lora.lora_keys import Kinds, rank_of
from modules.formats.lora.lora_names import Naming
from modules.formats.lora.lora_peft import METADATA
from onetrainer.config.run.model import Base

IMPLEMENTATION = PREFIX + "implementation"
DIM, ALPHA, ARGUMENTS = "ss_network_dim", "ss_network_alpha", "ss_network_args"


def layout_of(base: Base, naming: Naming) -> Layout:
    """Whose names the UNet's layers have; kohya's are diffusers' for all bases but SDXL."""
    match naming:
        case "diffusers":
            return "diffusers"
        case "comfyui":
            return "original"
        case "kohya":
            return "original" if base == "sdxl" else "diffusers"


def metadata_as_written(
    metadata: Mapping[str, str], layers: Iterable[Kinds], *, base: Base, naming: Naming
) -> dict[str, str]:
    """The metadata, with what it tells of names and alphas made true for a file in this naming.

    Nothing is told that was not told before.
    """
    told = {key: text for key, text in metadata.items() if key != METADATA}
    if IMPLEMENTATION in told:
        told[IMPLEMENTATION] = IMPLEMENTATIONS[layout_of(base, naming)]
    # diffusers' naming has no alpha, which means the rank: the factor is in the up matrices.
    if naming == "diffusers":
        rank = _rank(told, layers)
        if ALPHA in told and rank:
            told[ALPHA] = rank
        if ARGUMENTS in told:
            told[ARGUMENTS] = _with_conv_alpha_as_rank(told[ARGUMENTS])
    return told


def _rank(metadata: Mapping[str, str], layers: Iterable[Kinds]) -> str:
    """The rank that all layers have or, of several, the one that is told; "" if none is."""
    ranks = {rank for kinds in layers if (rank := rank_of(kinds)) is not None}
    return str(ranks.pop()) if len(ranks) == 1 else metadata.get(DIM, "")


def _with_conv_alpha_as_rank(text: str) -> str:
    """More arguments in kohya's JSON: convolutions have a rank and an alpha of their own."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(arguments, dict) or not {"conv_dim", "conv_alpha"} <= arguments.keys():
        return text
    return json.dumps({**arguments, "conv_alpha": arguments["conv_dim"]})
