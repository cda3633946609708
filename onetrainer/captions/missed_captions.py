"""Files that may be meant as captions and are not read as such."""

import os
from collections.abc import Iterable
from pathlib import Path

from onetrainer.concepts.folder_listing import (
    CAPTION_SUFFIXES,
    FolderImage,
    is_image,
    normalize_name,
    stem,
)
from onetrainer.errors import some_of

_LISTS = (".csv", ".jsonl")
_NO_CAPTIONS = frozenset([".npz", ".npy", ".pt", ".safetensors", ".mp4", ".webm", ".xmp", ".zip"])
"""Extensions of files with an image's name that are not text, such as kohya's cached latents."""

_EXAMPLES = 3


def missed_captions(images: Iterable[FolderImage]) -> str:
    """Return what lies beside images without a caption file and may hold their captions; or "".

    That are files like "cat.tags" and "cat.png.txt" for "cat.png", and lists of captions.
    """
    bare: dict[Path, set[str]] = {}
    for image in images:
        if image.caption is None and is_image(image.path.name):
            name = normalize_name(image.path.name)
            bare.setdefault(image.path.parent, set()).update((name, stem(name)))
    files, lists = [], []
    for folder, names in sorted(bare.items()):
        for name in _file_names(folder):
            suffix = Path(name).suffix.lower()
            if suffix in _LISTS:
                lists.append(name)
            elif not (is_image(name) or suffix in _NO_CAPTIONS) and stem(name) in names:
                files.append(name)
    if files:
        read = " and ".join(reversed(CAPTION_SUFFIXES))
        return f"{some_of(files, _EXAMPLES)} may be meant, but only {read} files are read"
    if lists:
        some = some_of(lists, _EXAMPLES)
        return f'{some} may be meant; then choose it under "Captions from" (data.caption_source)'
    return ""


def _file_names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(normalize_name(entry.name) for entry in entries if entry.is_file())
    except OSError:
        return []
