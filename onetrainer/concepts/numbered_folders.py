"""Folders named as kohya's trainer reads them: "10_sks dog" is repeats, then words."""

import re
from collections.abc import Sequence
from pathlib import Path

from onetrainer.concepts.folder_listing import count_images, list_folder, natural_key
from onetrainer.config.data.concept import Concept, Role
from onetrainer.config.data.data import MAX_CONCEPTS
from onetrainer.errors import some_of

_NAME = re.compile(r"([1-9]\d{0,2})_(.*\S.*)")
"""Up to 999 repeats: a longer number is a year, and one that begins with 0 an order."""

_TRAINING = ("img", "image", "images", "train")
_CLASSES = ("reg", "regularization", "class")
"""Names of the folders that numbered folders of training and of class images are kept in."""

_EXAMPLES = 3


def numbered_concepts(root: Path) -> tuple[Concept, ...]:
    """Return concepts for the numbered folders in a folder, or in its "img" and "reg".

    Empty if there are none, if another folder beside them has images, which would be lost, or if
    the folder itself has. As kohya's trainer does, they use the words as the caption of images
    without a caption file, and as many class images as there are training images.
    """
    inner = {folder.name.lower(): folder for folder in _folders(root)}
    training = _concepts(root, "train") or _first(inner, _TRAINING, "train")
    prior = _first(inner, _CLASSES, "prior") if training else ()
    # Repeats of class images only divide the number among their folders.
    wanted, existing = (
        sum(concept.repeats * count_images(Path(concept.folder)) for concept in some)
        for some in (training, prior)
    )
    shares = (
        (concept, concept.repeats * count_images(Path(concept.folder)) / existing)
        for concept in prior
    )
    made = (*training, *(c.model_copy(update={"images": round(wanted * s)}) for c, s in shares))
    return made if len(made) <= MAX_CONCEPTS else ()


def numbered_text(concepts: Sequence[Concept]) -> str:
    """Return what is said of a folder that has these concepts."""
    names = [f'"{Path(concept.folder).name}"' for concept in concepts]
    return f"the names of its folders hold repeats and words: {some_of(names, _EXAMPLES)}"


def _first(folders: dict[str, Path], names: tuple[str, ...], role: Role) -> tuple[Concept, ...]:
    """Return the concepts in the first of some folders that has numbered ones."""
    made = (_concepts(folders[name], role) for name in names if name in folders)
    return next(filter(None, made), ())


def _concepts(root: Path, role: Role) -> tuple[Concept, ...]:
    """Return concepts for the folders in a folder; empty unless just the numbered have images."""
    folders = [folder for folder in _folders(root) if count_images(folder)]
    names = [_NAME.fullmatch(folder.name) for folder in folders]
    if count_images(root) or not all(names):
        return ()
    return tuple(
        _concept(folder, int(name[1]), name[2].strip(), role)
        for folder, name in zip(folders, names, strict=True)
        if name
    )


def _concept(folder: Path, repeats: int, words: str, role: Role) -> Concept:
    images = list_folder(folder, recursive=False).images
    captioned = sum(image.caption is not None for image in images)
    concept = Concept(folder=str(folder), name=words, role=role, repeats=float(repeats))
    if captioned == len(images):
        return concept
    if captioned or role == "train":
        source = "files" if captioned else "text"
        return concept.model_copy(update={"caption_source": source, "trigger": words})
    return concept.model_copy(update={"caption_source": "text", "caption_text": words})


def _folders(root: Path) -> list[Path]:
    """Return the folders in a folder in natural order; empty if it cannot be read."""
    try:
        found = [path for path in root.iterdir() if path.name[0] != "." and path.is_dir()]
    except OSError:
        return []
    return sorted(found, key=lambda path: natural_key(path.name))
