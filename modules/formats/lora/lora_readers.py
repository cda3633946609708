"""Which programs read a file as it was trained, where some do not and say nothing."""

from collections.abc import Iterable

from modules.formats.lora.lora_keys import AdapterTensors
from modules.formats.lora.lora_names import Naming
from onetrainer.model_files.adapter_keys import DORA

_OTHERWISE = (
    "diffusers drops its norms with a warning in its log, and uses the rest as another LoRA"
)


def reader_notes(layers: Iterable[AdapterTensors], naming: Naming) -> list[str]:
    """Return who reads a DoRA's file, of which no form is read by all; nothing of other kinds.

    Source: docs/files.md, where it was computed.
    """
    scales = [tensors[DORA] for tensors in layers if DORA in tensors]
    if not scales:
        return []
    if scales[0].shape[0] == 1:  # (1, in), of inputs
        return [
            f"ComfyUI, Forge and A1111 read this DoRA. {_OTHERWISE}: for diffusers train norms of"
            ' outputs (method.norms) and write its naming (output.lora_naming "diffusers"), or'
            " make a plain LoRA of it: onetrainer merge --lora FILE --base MODEL OUT."
        ]
    if naming == "diffusers":
        return ["diffusers and peft read this DoRA; ComfyUI, Forge and A1111 misread its norms."]
    return [
        f"No common program but LyCORIS reads this DoRA, of norms of outputs, in the naming"
        f' "{naming}": {_OTHERWISE}, and ComfyUI misreads them. Convert it for diffusers:'
        " onetrainer convert FILE OUT --to diffusers."
    ]
