"""Models by their names on the Hugging Face Hub; without ever asking the network."""

import re
from collections.abc import Sequence
from pathlib import Path

MAX_NAME = 96
"""The longest name that the hub gives out."""

# Letters, digits, "_", "-" and "."; the latter two neither first, last nor twice in a row.
_WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9_]|[-.](?![-.]))*(?<![-.])"
_NAME = re.compile(rf"{_WORD}/{_WORD}")
# The hub allows these ends, but who writes one means a file.
_FILE_ENDS = (".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".json", ".git")


def is_hub_name(text: str, folder: Path | None = None) -> bool:
    """Whether a text means a model on the hub, "owner/name", rather than a path.

    folder: what a relative path would be taken from; None for the current folder. What exists there
    is no hub name.
    """
    if len(text) > MAX_NAME or not _NAME.fullmatch(text) or text.lower().endswith(_FILE_ENDS):
        return False
    return not ((folder or Path()) / text).exists()


def cached_folder(name: str, files: Sequence[str] = ("model_index.json",)) -> Path | None:
    """The folder that a model was downloaded to before; None if it was not.

    files: one of which it has.
    """
    # Loaded late: only who names a model of the hub needs it.
    from huggingface_hub import try_to_load_from_cache

    for file in files:
        found = try_to_load_from_cache(name, file)
        if isinstance(found, str):
            return Path(found).parent
    return None
