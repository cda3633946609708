"""Names of models on the Hugging Face Hub, handled without network access."""

import re
from collections.abc import Sequence
from pathlib import Path

MAX_NAME = 96
"""The longest name that the Hub allows."""

# Letters, digits, "_", "-" and "."; the latter two neither first, last nor twice in a row.
_WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9_]|[-.](?![-.]))*(?<![-.])"
_NAME = re.compile(rf"{_WORD}/{_WORD}")
# The Hub allows these suffixes, but such a text means a file.
_FILE_SUFFIXES = (".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".json", ".git")


def is_hub_name(text: str, folder: Path | None = None) -> bool:
    """Return whether a text is a model name on the Hub, "owner/name", rather than a path.

    folder: The folder of relative paths; None for the current one. A path that exists there is no
    Hub name.
    """
    if len(text) > MAX_NAME or not _NAME.fullmatch(text) or text.lower().endswith(_FILE_SUFFIXES):
        return False
    return not ((folder or Path()) / text).exists()


def cached_folder(name: str, files: Sequence[str] = ("model_index.json",)) -> Path | None:
    """Return the folder of a downloaded model; None if it was not downloaded.

    files: File names, one of which the download contains.
    """
    # Imported here, since only Hub models need it.
    from huggingface_hub import try_to_load_from_cache

    for file in files:
        path = try_to_load_from_cache(name, file)
        if isinstance(path, str):
            return Path(path).parent
    return None
