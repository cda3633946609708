"""What is wrong between the folders of pictures and what is to be done with them.

Only the settings are looked at here; what lies in the folders is looked at with the pictures.
"""

import os
from collections.abc import Iterator
from itertools import combinations

from onetrainer.captions.caption_rules import caption_problems
from onetrainer.concepts.concepts import PRIOR_ROLES, ConceptSettings, concepts_of
from onetrainer.config.data.concept import CaptionSource
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import MIN_RESOLUTION
from onetrainer.errors import Fix, Problem

_NOUNS = {
    "train": "pictures to learn",
    "validation": "held-out pictures",
    "prior": "class pictures",
    "own_prediction": "pictures to keep",
}


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of folders, their roles, their captions and what is done to their pictures."""
    concepts = concepts_of(config)
    found = [*_of_learning(config), *_of_folders(config), *_of_same_folders(concepts)]
    found += _of_roles(config)
    if not isinstance(config.objective, Reconstruction):
        found += [*_of_captions(config), *_of_conditioning(config, concepts)]
    return [*found, *_of_sizes(config)]


def has_images(config: TrainConfig) -> bool:
    """Whether any folder of pictures to learn is chosen."""
    return any(concept.role == "train" for concept in concepts_of(config))


def sibling_path(concept: ConceptSettings, name: str) -> str:
    """The config's path of a setting that lies beside the one of a concept's folder."""
    return f"{concept.place.rpartition('.')[0]}.{name}"


def subfolders_path(concept: ConceptSettings) -> str:
    """The config's path of the switch for the folders within a concept's folder."""
    has_own = concept.place.startswith("data.concepts.")
    return sibling_path(concept, "include_subfolders") if has_own else "data.include_subfolders"


def masks_path(config: TrainConfig, concept: ConceptSettings) -> str:
    """The config's path of the setting that says where a concept's masks are."""
    section, _, _ = concept.place.rpartition(".")
    number = section.rpartition(".")[2]
    is_own = number.isdigit() and config.data.concepts[int(number)].masks != "same"
    return f"{section}.masks" if is_own else "data.masks"


def is_same_folder(one: ConceptSettings, other: ConceptSettings) -> bool:
    """Whether two concepts name the same folder; where links lead is not looked at."""
    return os.path.normpath(one.folder) == os.path.normpath(other.folder)


def _of_learning(config: TrainConfig) -> Iterator[Problem]:
    # Which of reward training need pictures is said with its rules.
    if isinstance(config.objective, AlignProp) or has_images(config):
        return
    if concepts_of(config):
        yield Problem(
            "data.folder",
            "none of the folders holds pictures to learn",
            "Expected one, beside those that validate or keep",
            "Choose a folder, or use one of the others to learn.",
        )
    elif not any(concept.use for concept in config.data.concepts):
        yield Problem(
            "data.folder", "no folder of pictures is chosen", "Expected a folder", "Choose one."
        )


def _of_folders(config: TrainConfig) -> Iterator[Problem]:
    for place, concept in enumerate(config.data.concepts):
        if concept.use and not concept.folder:
            yield Problem(
                f"data.concepts.{place}.folder",
                "no folder of pictures is chosen",
                "Expected a folder",
                "Choose one, or remove this entry.",
            )


def _of_same_folders(concepts: tuple[ConceptSettings, ...]) -> Iterator[Problem]:
    for one, other in combinations(concepts, 2):
        if not is_same_folder(one, other):
            continue
        # The later one is told of, but where pictures are held out, that is the one to change.
        here, there = (one, other) if one.role == "validation" else (other, one)
        if one.role == other.role:
            yield Problem(
                here.place,
                f"this folder is named twice, here and in {there.place}",
                "Its pictures are shown as often as both say",
                "Remove one of them, if that is not meant.",
                "warning",
            )
        elif here.role == "validation":
            yield Problem(
                here.place,
                f"this is the folder of the {_NOUNS[there.role]} ({there.place})",
                "Expected pictures that the model does not see while it learns",
                "Choose another folder, or leave it empty to hold out a share of the pictures.",
                fix=Fix(here.place, "") if here.place == "validation.folder" else None,
            )
        elif "train" in (one.role, other.role):
            here, there = (other, one) if one.role == "train" else (one, other)
            yield Problem(
                here.place,
                f"this is the folder of the {_NOUNS[there.role]} ({there.place})",
                "Expected other pictures",
                "Choose another folder.",
            )


def _of_roles(config: TrainConfig) -> Iterator[Problem]:
    for place, concept in enumerate(config.data.concepts):
        path = f"data.concepts.{place}.role"
        if not concept.use or not concept.folder:
            continue
        if concept.role == "validation" and not config.validation.use:
            yield Problem(
                path,
                "its pictures are neither learned nor measured, as nothing is validated",
                "Expected validation with it (validation.use)",
                "Turn on validation, or use them to learn.",
                "warning",
                Fix("validation.use", value=True),
            )
        if concept.role in PRIOR_ROLES and isinstance(config.objective, Reconstruction):
            yield Problem(
                path,
                "a VAE is trained without class pictures",
                "They change nothing",
                "Use them to learn, or leave them out.",
                "warning",
                Fix(f"data.concepts.{place}.use", value=False),
            )
        if concept.role == "train" and not concept.loss_weight:
            yield Problem(
                f"data.concepts.{place}.loss_weight",
                "its pictures count nothing, and still take their time",
                "Expected a weight above 0",
                "Raise it, or turn the folder off.",
                "warning",
                Fix(f"data.concepts.{place}.use", value=False),
            )


def _of_captions(config: TrainConfig) -> Iterator[Problem]:
    data = config.data
    yield from caption_problems(data.captions, "data.captions")
    if data.folder:
        source, text, file = data.caption_source, data.caption_text, data.caption_list
        yield from _of_source("data", source, text, file, has_words=bool(data.trigger))
    for place, concept in enumerate(data.concepts):
        if concept.use and concept.folder:
            path = f"data.concepts.{place}"
            source, text, file = concept.caption_source, concept.caption_text, concept.caption_list
            yield from _of_source(path, source, text, file, has_words=bool(concept.trigger))
            if concept.own_captions:
                yield from caption_problems(concept.captions, f"{path}.captions")


def _of_source(
    path: str, source: CaptionSource, text: str, file: str, *, has_words: bool = False
) -> Iterator[Problem]:
    if source == "text" and not text.strip() and not has_words:
        yield Problem(
            f"{path}.caption_text",
            "the caption of all pictures is empty",
            "Expected what is to be seen in them",
            "Write it, or take captions from elsewhere.",
        )
    if source == "list" and not file:
        yield Problem(
            f"{path}.caption_list",
            "no list of captions is chosen",
            "Expected a .csv, .jsonl or .txt file",
            "Choose one, or take captions from elsewhere.",
        )


def _of_conditioning(
    config: TrainConfig, concepts: tuple[ConceptSettings, ...]
) -> Iterator[Problem]:
    is_inpainting = config.model.family.endswith("inpainting")
    if not is_inpainting or config.data.conditioning != "masks":
        return
    if concepts and all(concept.masks == "off" for concept in concepts if not concept.is_prior):
        yield Problem(
            "data.conditioning",
            "masks are off, so that nothing is shown of any picture",
            "Expected masks with it (data.masks)",
            "Choose where masks are, or show it nothing.",
            "warning",
            Fix("data.conditioning", "blank"),
        )


def _of_sizes(config: TrainConfig) -> Iterator[Problem]:
    buckets = config.data.buckets
    if buckets.sizes and buckets.resolutions:
        yield Problem(
            "data.buckets.resolutions",
            "sizes are fixed, so that more resolutions change nothing",
            "Expected the one or the other",
            "Remove the fixed sizes (data.buckets.sizes) or the resolutions.",
            "warning",
        )
    for place, concept in enumerate(config.data.concepts):
        path = f"data.concepts.{place}.resolution"
        if not concept.use or not concept.resolution:
            continue
        if not buckets.sizes and concept.resolution < MIN_RESOLUTION:
            yield Problem(
                path,
                f"{concept.resolution} pixels are too few to show anything",
                f"Expected at least {MIN_RESOLUTION}, or 0 for that of the others",
                "Raise it.",
                fix=Fix(path, 0),
            )
        if buckets.sizes:
            yield Problem(
                path,
                "sizes are fixed, so that a resolution of its own changes nothing",
                "Expected the one or the other",
                "Remove the fixed sizes (data.buckets.sizes) or this resolution.",
                "warning",
                Fix(path, 0),
            )
