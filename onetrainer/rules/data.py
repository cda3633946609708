"""Rules of image folders, their roles, captions and sizes.

Only settings are checked here; the content of the folders is checked with the images.
"""

import os
from collections.abc import Iterator
from itertools import combinations

from onetrainer.captions.caption_rules import caption_problems
from onetrainer.concepts.concepts import PRIOR_ROLES, ConceptSettings, concepts_of
from onetrainer.config.data.concept import Concept
from onetrainer.config.data.data import Data
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import MIN_RESOLUTION
from onetrainer.errors import CHOOSE, Fix, Problem, warning
from onetrainer.families.registry import family_spec

_ROLE_LABELS = {
    "train": "training images",
    "validation": "validation images",
    "prior": "class images",
    "own_prediction": "images trained on the base model's prediction",
}


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of folders, their roles, their captions and image sizes."""
    concepts = concepts_of(config)
    # The rules of reward training check whether it needs images; sliders need none.
    if not isinstance(config.objective, AlignProp | Slider) and not has_images(config):
        if concepts:
            yield Problem(
                "data.folder",
                "none of the folders has training images",
                'Expected at least one folder with the role "training"',
                "Choose a folder, or change the role of another one.",
            )
        elif not any(concept.use for concept in config.data.concepts):
            yield Problem("data.folder", "no image folder is chosen", "Expected a folder", CHOOSE)
    yield from _duplicate_folders(concepts)
    yield from _role_problems(config)
    if not isinstance(config.objective, Reconstruction):
        yield from _caption_problems(config)
        yield from _conditioning_problems(config, concepts)
    yield from _size_problems(config)


def has_images(config: TrainConfig) -> bool:
    """Return whether any folder of training images is set."""
    return any(concept.role == "train" for concept in concepts_of(config))


def sibling_path(concept: ConceptSettings, name: str) -> str:
    """Return the path of a setting in the same section as a concept's folder."""
    return f"{concept.setting_path.rpartition('.')[0]}.{name}"


def subfolders_path(concept: ConceptSettings) -> str:
    """Return the path of the switch for a concept's subfolders."""
    is_further = concept.setting_path.startswith("data.concepts.")
    return sibling_path(concept, "include_subfolders") if is_further else "data.include_subfolders"


def masks_path(config: TrainConfig, concept: ConceptSettings) -> str:
    """Return the path of the setting for a concept's masks."""
    section, _, _ = concept.setting_path.rpartition(".")
    number = section.rpartition(".")[2]
    has_own = number.isdigit() and config.data.concepts[int(number)].masks != "same"
    return f"{section}.masks" if has_own else "data.masks"


def is_same_folder(first: ConceptSettings, second: ConceptSettings) -> bool:
    """Return whether two concepts name the same folder; links are not followed."""
    return os.path.normpath(first.folder) == os.path.normpath(second.folder)


def _duplicate_folders(concepts: tuple[ConceptSettings, ...]) -> Iterator[Problem]:
    for first, second in combinations(concepts, 2):
        if not is_same_folder(first, second):
            continue
        # The problem belongs to the later one, or to the one with validation images.
        here, there = (first, second) if first.role == "validation" else (second, first)
        if first.role == second.role:
            yield warning(
                here.setting_path,
                f"this folder is used twice, here and in {there.setting_path}",
                "Its images are used once for each of the two entries",
                "Remove one of them if this is not intended.",
            )
        elif here.role == "validation":
            yield Problem(
                here.setting_path,
                f"this is the folder of the {_ROLE_LABELS[there.role]} ({there.setting_path})",
                "Expected images that the model is not trained on",
                "Choose another folder, or leave it empty to split off training images.",
                fix=Fix(here.setting_path, "")
                if here.setting_path == "validation.folder"
                else None,
            )
        elif "train" in (first.role, second.role):
            here, there = (second, first) if first.role == "train" else (first, second)
            yield Problem(
                here.setting_path,
                f"this is the folder of the {_ROLE_LABELS[there.role]} ({there.setting_path})",
                "Expected other images",
                "Choose another folder.",
            )


def _role_problems(config: TrainConfig) -> Iterator[Problem]:
    for index, concept in enumerate(config.data.concepts):
        path = f"data.concepts.{index}.role"
        if not concept.use:
            continue
        if not concept.folder:
            yield Problem(
                f"data.concepts.{index}.folder",
                "no image folder is chosen",
                "Expected a folder",
                "Choose one, or remove this entry.",
            )
            continue
        if concept.role == "validation" and not config.validation.use:
            yield warning(
                path,
                "its images are not used, because validation is off",
                "Expected validation to be on (validation.use)",
                "Turn on validation, or change the role to training.",
                fix=Fix("validation.use", value=True),
            )
        if concept.role in PRIOR_ROLES and isinstance(config.objective, Reconstruction):
            yield warning(
                path,
                "VAE training does not use class images",
                "They have no effect",
                "Change the role to training, or turn the folder off.",
                fix=Fix(f"data.concepts.{index}.use", value=False),
            )
        if concept.role == "train" and not concept.loss_weight:
            yield warning(
                f"data.concepts.{index}.loss_weight",
                "its images have no effect on the loss but still take time",
                "Expected a weight above 0",
                "Raise it, or turn the folder off.",
                fix=Fix(f"data.concepts.{index}.use", value=False),
            )


def _caption_problems(config: TrainConfig) -> Iterator[Problem]:
    data = config.data
    yield from caption_problems(data.captions, "data.captions")
    if data.folder:
        yield from _source_problems("data", data)
    for index, concept in enumerate(data.concepts):
        if concept.use and concept.folder:
            path = f"data.concepts.{index}"
            yield from _source_problems(path, concept)
            if concept.own_captions:
                yield from caption_problems(concept.captions, f"{path}.captions")


def _source_problems(path: str, section: Data | Concept) -> Iterator[Problem]:
    is_empty = not section.caption_text.strip() and not section.trigger
    if section.caption_source == "text" and is_empty:
        yield Problem(
            f"{path}.caption_text",
            "the caption of all images is empty",
            "Expected a description of the images",
            "Write one, or choose another source of captions.",
        )
    if section.caption_source == "list" and not section.caption_list:
        yield Problem(
            f"{path}.caption_list",
            "no caption list is chosen",
            "Expected a .csv, .jsonl or .txt file",
            "Choose one, or choose another source of captions.",
        )


def _conditioning_problems(
    config: TrainConfig, concepts: tuple[ConceptSettings, ...]
) -> Iterator[Problem]:
    sees_masked = family_spec(config.model.family).sees_masked_image
    if not sees_masked or config.data.conditioning != "masks":
        return
    if concepts and all(concept.masks == "off" for concept in concepts if not concept.is_prior):
        yield warning(
            "data.conditioning",
            "masks are off, so there are no masked images to see",
            "Expected masks to be on (data.masks)",
            "Choose a source of masks, or use blank conditioning.",
            to="blank",
        )


def _size_problems(config: TrainConfig) -> Iterator[Problem]:
    buckets = config.data.buckets
    if buckets.sizes and buckets.resolutions:
        yield warning(
            "data.buckets.resolutions",
            "fixed sizes are set, so more resolutions have no effect",
            "Expected either fixed sizes or more resolutions",
            "Remove the fixed sizes (data.buckets.sizes) or the resolutions.",
        )
    for index, concept in enumerate(config.data.concepts):
        path = f"data.concepts.{index}.resolution"
        if not concept.use or not concept.resolution:
            continue
        if not buckets.sizes and concept.resolution < MIN_RESOLUTION:
            yield Problem(
                path,
                f"{concept.resolution} pixels are too few for an image",
                f"Expected at least {MIN_RESOLUTION}, or 0 for the common resolution",
                "Raise it.",
                fix=Fix(path, 0),
            )
        if buckets.sizes:
            yield warning(
                path,
                "fixed sizes are set, so a resolution of its own has no effect",
                "Expected either fixed sizes or a resolution",
                "Remove the fixed sizes (data.buckets.sizes) or this resolution.",
                to=0,
            )
