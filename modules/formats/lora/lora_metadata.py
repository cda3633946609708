"""Metadata of a LoRA file that depends on how the file is written."""

import json
from collections.abc import Iterable, Mapping

from modules.formats.embeddings.modelspec import IMPLEMENTATIONS, PREFIX, Layout
from modules.formats.lora.lora_keys import AdapterTensors, rank_of
from modules.formats.lora.lora_names import Naming
from onetrainer.families.registry import family_spec
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.model_files.adapter_settings import METADATA

IMPLEMENTATION = PREFIX + "implementation"
DIM, ALPHA, ARGUMENTS = "ss_network_dim", "ss_network_alpha", "ss_network_args"


def layout_of(base: str, naming: Naming) -> Layout:
    """Return whose names the UNet's layers have: kohya's depend on the family."""
    match naming:
        case "diffusers":
            return "diffusers"
        case "comfyui":
            return "original"
        case "kohya":
            return "original" if family_spec(base).has_original_layer_names else "diffusers"


def metadata_as_written(
    metadata: Mapping[str, str], layers: Iterable[AdapterTensors], *, base: str, naming: Naming
) -> dict[str, str]:
    """Return the metadata with layout and alphas corrected for a file in this naming.

    Only existing entries are corrected; none are added.
    """
    written = {key: text for key, text in metadata.items() if key != METADATA}
    if IMPLEMENTATION in written:
        written[IMPLEMENTATION] = IMPLEMENTATIONS[layout_of(base, naming)]
    # diffusers' naming has no alpha, which means the rank: the factor is in the up matrices.
    if naming == "diffusers":
        ranks = {rank for tensors in layers if (rank := rank_of(tensors)) is not None}
        rank_text = str(ranks.pop()) if len(ranks) == 1 else written.get(DIM, "")
        if ALPHA in written and rank_text:
            written[ALPHA] = rank_text
        if ARGUMENTS in written:
            written[ARGUMENTS] = _with_conv_alpha_as_rank(written[ARGUMENTS])
    return written


def _with_conv_alpha_as_rank(text: str) -> str:
    """Return kohya's JSON of network arguments with the convolutions' alpha set to their rank."""
    try:
        arguments = parse_object(text)
    except NotOurs:
        return text
    if not {"conv_dim", "conv_alpha"} <= arguments.keys():
        return text
    return json.dumps({**arguments, "conv_alpha": arguments["conv_dim"]})
