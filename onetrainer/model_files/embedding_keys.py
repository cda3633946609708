"""Tensor names of embeddings, in files of their own and bundled with a LoRA."""

import re
from collections.abc import Mapping

from onetrainer.families.registry import FAMILIES

BUNDLE = "bundle_emb."
"""The prefix of an embedding's token in a file with several embeddings."""
OUTPUT = "_out"
"""The suffix of a key whose vectors replace the encoder's output."""
A1111_KEY = "string_to_param.*"

# Our key for the only encoder of a model, and the spellings that mean the same: ComfyUI and
# OneTrainer's bundles write the encoder's name.
SINGLE_KEY = "emb_params"
SINGLE_SPELLINGS = (
    "emp_params",
    A1111_KEY,
    *{spec.encoders[0].comfy_name for spec in FAMILIES if spec.series and len(spec.encoders) == 1},
)
SEVERAL_KEYS: Mapping[str, str] = {
    encoder.comfy_name: encoder.name
    for spec in FAMILIES
    if spec.series and len(spec.encoders) > 1
    for encoder in spec.encoders
}
"""The encoders of models with several, by their keys."""
KEYS = (SINGLE_KEY, *SINGLE_SPELLINGS, *SEVERAL_KEYS)
OF_SEVERAL = SEVERAL_KEYS.keys() - set(SINGLE_SPELLINGS)
"""Keys that only files for models with several encoders have."""

# In A1111's pickles, followed by the token used in training, nearly always "*".
_PARAMETER = re.compile(r"string_to_param\..*")
# Tokens may contain dots, and A1111's key has one.
_BUNDLED = re.compile(
    rf"{re.escape(BUNDLE)}(?P<token>.+?)\.(?P<key>string_to_param\..+|[^.]+)", re.DOTALL
)


def is_a1111(key: str) -> bool:
    """Return whether a key is that of an A1111 pickle."""
    return bool(_PARAMETER.fullmatch(key))


def is_vectors(key: str) -> bool:
    """Return whether a tensor name is that of an embedding's vectors, except in diffusers' form."""
    return is_a1111(key) or key.removesuffix(OUTPUT) in KEYS


def bundled(name: str) -> tuple[str, str] | None:
    """Return token and key of a bundled embedding's tensor; None for other tensors."""
    match = _BUNDLED.fullmatch(name)
    return (match["token"], match["key"]) if match else None


def bundled_name(token: str, key: str) -> str:
    """Return the tensor name of an embedding in a file with several embeddings."""
    return f"{BUNDLE}{token}.{key}"
