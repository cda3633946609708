"""Tensor names of embeddings, in files of their own and bundled with a LoRA."""

import re

from onetrainer.families.registry import FAMILIES

BUNDLE = "bundle_emb."
"""The prefix of an embedding's token in a file with several embeddings."""
OUTPUT = "_out"
"""The suffix of a key whose vectors replace the encoder's output."""
A1111_KEY = "string_to_param.*"

# Our key for one encoder, and the spellings that mean the same. clip_l without clip_g is what
# ComfyUI and OneTrainer's bundles call the only encoder, clip_h ComfyUI's word for SD 2's.
SINGLE_KEY, SINGLE_SPELLINGS = "emb_params", ("emp_params", A1111_KEY, "clip_l", "clip_h")
XL_KEYS = {
    encoder.name: encoder.comfy_name
    for spec in FAMILIES
    if len(spec.encoders) > 1
    for encoder in spec.encoders
}
"""Keys of models with two encoders, by the encoder."""
KEYS = (SINGLE_KEY, *SINGLE_SPELLINGS, *XL_KEYS.values())

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
