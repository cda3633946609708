"""What embeddings' tensors are called: alone in a file, and bundled with a LoRA."""

import re

BUNDLE = "bundle_emb."
"""Before an embedding's word in a file that holds more than one embedding."""
OUTPUT = "_out"
"""Behind a key: the vectors take the place of the encoder's output."""
A1111_KEY = "string_to_param.*"

# Our key for one encoder, and the spellings that mean the same. clip_l without clip_g is what
# ComfyUI and OneTrainer's bundles call the only encoder, clip_h ComfyUI's word for SD 2's.
SINGLE_KEY, SINGLE_SPELLINGS = "emb_params", ("emp_params", A1111_KEY, "clip_l", "clip_h")
XL_KEYS = {"te1": "clip_l", "te2": "clip_g"}
KEYS = (SINGLE_KEY, *SINGLE_SPELLINGS, *XL_KEYS.values())

# In A1111's pickles, under the word that stood for it while it was trained: "*", nearly always.
_PARAMETER = re.compile(r"string_to_param\..*")
# Words may have dots, and A1111's key has one.
_BUNDLED = re.compile(
    rf"{re.escape(BUNDLE)}(?P<word>.+?)\.(?P<key>string_to_param\..+|[^.]+)", re.DOTALL
)


def is_a1111(key: str) -> bool:
    """Whether a key is one of A1111's pickles."""
    return bool(_PARAMETER.fullmatch(key))


def is_vectors(key: str) -> bool:
    """Whether a tensor of this name is an embedding's vectors, in any spelling but diffusers'."""
    return is_a1111(key) or key.removesuffix(OUTPUT) in KEYS


def bundled(name: str) -> tuple[str, str] | None:
    """The word and the key of a bundled embedding's tensor; None for other tensors."""
    found = _BUNDLED.fullmatch(name)
    return (found["word"], found["key"]) if found else None


def bundled_name(word: str, key: str) -> str:
    """What a tensor of an embedding is called in a file of more than that embedding."""
    return f"{BUNDLE}{word}.{key}"
