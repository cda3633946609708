"""The image folders of a config, each with all of its settings."""

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from onetrainer.config.base.prompt_weights import PromptWeights
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.config.data.buckets import Buckets
from onetrainer.config.data.captions import Captions
from onetrainer.config.data.concept import CaptionSource, Concept, Masks, Role
from onetrainer.config.data.data import Conditioning
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.run.model import FamilyName
from onetrainer.config.train import TrainConfig
from onetrainer.families.registry import family_spec
from onetrainer.seeds import derive

PRIOR_ROLES = frozenset[Role](["prior", "own_prediction"])
"""Roles of images for prior preservation."""

_SMALL = {128: 8, 256: 16}
"""Bucket steps below a resolution, as used by tests and small models."""


@dataclass(frozen=True)
class ConceptSettings:
    """The settings of one image folder, its own or those for all folders.

    Attributes:
        setting_path: config path of the folder, "data.folder" or "data.concepts.2.folder".
        identity: name that seeds random choices wherever the folder is: its name, with a number
            if earlier ones share it; "" for folders outside of data.concepts.
        images: number of images used per epoch; 0 goes by repeats.
        matches_training: whether it uses as many images as there are for training.
        resolutions: in pixels, used in turn.
        step: multiple that sides of buckets have.
        caption_text: caption of all images for that source.
        require_captions: whether it is an error if no image has a caption.
        uses_captions: whether captions are used at all.
        mask_folder, conditioning_folder: where these have the names of their images; None if next
            to them.
        conditioning: conditioning images, for a model that sees them.
        caption_weights: how weights of words in captions are read.
    """

    setting_path: str
    name: str
    folder: Path
    identity: str = ""
    role: Role = "train"
    recursive: bool = False
    repeats: Fraction = Fraction(1)
    images: int = 0
    matches_training: bool = False
    loss_weight: float = 1.0
    seed: int = 0
    resolutions: tuple[int, ...] = (512,)
    step: int = 8
    caption_source: CaptionSource = "files"
    caption_text: str = ""
    caption_list: Path | None = None
    trigger: str = ""
    require_captions: bool = True
    uses_captions: bool = True
    masks: Masks = "off"
    mask_folder: Path | None = None
    conditioning: Conditioning = "blank"
    conditioning_folder: Path | None = None
    buckets: Buckets = field(default_factory=Buckets)
    captions: Captions = field(default_factory=Captions)
    augmentation: Augmentation = field(default_factory=Augmentation)
    caption_weights: PromptWeights = "off"

    @property
    def is_prior(self) -> bool:
        """Whether the images are for prior preservation."""
        return self.role in PRIOR_ROLES

    @property
    def uses_trigger_only(self) -> bool:
        """Whether trigger words are the whole caption."""
        is_silent = self.caption_source == "text" and not self.caption_text.strip()
        return is_silent and bool(self.trigger.strip())

    @property
    def label(self) -> str:
        """Label of the folder in the window."""
        return _LABELS.get(self.setting_path, "Folder")


_LABELS = {
    "data.folder": "Images",
    "data.class_folder": "Class images",
    "validation.folder": "Validation images",
}


def concepts_of(config: TrainConfig) -> tuple[ConceptSettings, ...]:
    """Return all folders in use: the first, the others in order, class images, validation images.

    For VAE training there are no prior images, captions and masks.
    """
    data = config.data
    concepts = []
    if data.folder:
        concepts.append(_default_settings(config, "data.folder", data.folder))
    calls: Counter[str] = Counter()
    for index, concept in enumerate(data.concepts):
        calls[name := _concept_name(concept)] += 1
        if concept.use and concept.folder:
            concepts.append(_concept_settings(config, index, concept, nth=calls[name]))
    if data.class_folder:
        concepts.append(
            _default_settings(
                config, "data.class_folder", data.class_folder, role="prior", matches_training=True
            )
        )
    if config.validation.use and config.validation.folder:
        folder = config.validation.folder
        concepts.append(_default_settings(config, "validation.folder", folder, role="validation"))
    if isinstance(config.objective, Reconstruction):
        return tuple(concept for concept in concepts if not concept.is_prior)
    return tuple(concepts)


def folder_name(folder: Path) -> str:
    """Return the name of a folder, even if its path is "." or ".."."""
    if folder.name not in ("", ".."):
        return folder.name
    return Path(os.path.abspath(folder)).name  # noqa: PTH100 - links stay as named


def has_masks(config: TrainConfig) -> bool:
    """Return whether any image may have a mask, including those of folders not chosen yet."""
    return config.data.masks != "off" or any(one.masks != "off" for one in concepts_of(config))


def bucket_step(family: FamilyName, chosen: int, resolution: int) -> int:
    """Return the multiple in pixels of bucket sides; chosen is 0 for the family's own."""
    if chosen:
        return chosen
    default = family_spec(family).bucket_step
    return min([default, *(step for below, step in _SMALL.items() if resolution < below)])


def _default_settings(
    config: TrainConfig,
    setting_path: str,
    folder: str,
    *,
    role: Role = "train",
    matches_training: bool = False,
) -> ConceptSettings:
    """Return the settings of a folder that has none of its own."""
    data = config.data
    is_plain = isinstance(config.objective, Reconstruction)
    is_first = setting_path == "data.folder"
    source, text, listed = _caption_source(config, setting_path)
    return ConceptSettings(
        setting_path=setting_path,
        name=folder_name(Path(folder).expanduser()),
        folder=Path(folder).expanduser(),
        role=role,
        recursive=data.include_subfolders,
        matches_training=matches_training,
        seed=config.training.seed,
        resolutions=tuple(
            dict.fromkeys([data.resolution, *(one.resolution for one in data.buckets.resolutions)])
        ),
        step=bucket_step(config.model.family, data.buckets.step, data.resolution),
        caption_source=source,
        caption_text=text,
        caption_list=_caption_list_path(config, listed),
        trigger="" if role in PRIOR_ROLES else data.trigger,
        require_captions=data.require_captions and not is_plain,
        uses_captions=not is_plain,
        masks="off" if is_plain or role in PRIOR_ROLES else data.masks,
        mask_folder=_path_of(data.mask_folder) if is_first else None,
        conditioning="blank" if is_plain else data.conditioning,
        conditioning_folder=_path_of(data.conditioning_folder) if is_first else None,
        buckets=data.buckets,
        captions=data.captions,
        augmentation=data.augmentation,
        caption_weights=data.caption_weights,
    )


def _caption_source(config: TrainConfig, setting_path: str) -> tuple[CaptionSource, str, str]:
    """Return source, text and list of the captions of a folder that has no settings of its own.

    Class and validation images have the same source as training images unless they have a text or a
    list of their own. A list names training images only, and one text for all describes what is
    trained, which class images do not show.
    """
    data, validation = config.data, config.validation.caption_list
    match setting_path, data.caption_source:
        case "data.folder", source:
            return source, data.caption_text, data.caption_list
        case "data.class_folder", _ if data.class_text.strip():
            return "text", data.class_text, ""
        case "validation.folder", _ if validation:
            return "list", "", validation
        case _, "names" | "folders" as source:
            return source, "", ""
        case "validation.folder", "text":
            return "text", data.caption_text, ""
    return "files", "", ""


def _concept_settings(
    config: TrainConfig, index: int, concept: Concept, *, nth: int
) -> ConceptSettings:
    """Return the settings of an entry of data.concepts; nth counts entries of that name from 1."""
    data, name = config.data, _concept_name(concept)
    identity = name if nth == 1 else f"{name} ({nth})"
    setting_path = f"data.concepts.{index}.folder"
    common = _default_settings(config, setting_path, concept.folder, role=concept.role)
    is_unmasked = isinstance(config.objective, Reconstruction) or concept.role in PRIOR_ROLES
    return replace(
        common,
        name=name,
        identity=identity,
        recursive=concept.include_subfolders,
        repeats=Fraction(str(concept.repeats)),
        images=concept.images,
        loss_weight=concept.loss_weight,
        # A seed of its own, so that 1.png of twenty folders is not flipped in all or none.
        seed=concept.seed or derive(config.training.seed, "concept", identity),
        resolutions=(concept.resolution,) if concept.resolution else common.resolutions,
        step=bucket_step(
            config.model.family, data.buckets.step, concept.resolution or data.resolution
        ),
        caption_source=concept.caption_source,
        caption_text=concept.caption_text,
        caption_list=_caption_list_path(config, concept.caption_list),
        trigger=concept.trigger,
        mask_folder=_path_of(concept.mask_folder),
        conditioning_folder=_path_of(concept.conditioning_folder),
        masks=common.masks if is_unmasked or concept.masks == "same" else concept.masks,
        captions=concept.captions if concept.own_captions else data.captions,
        augmentation=concept.augmentation if concept.own_augmentation else data.augmentation,
    )


def _path_of(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _concept_name(concept: Concept) -> str:
    return concept.name or folder_name(Path(concept.folder).expanduser())


def _caption_list_path(config: TrainConfig, text: str) -> Path | None:
    """Return the path of a caption list; None if there is none, or none of it is used.

    VAE training has no captions: it only uses focus points.
    """
    is_plain = isinstance(config.objective, Reconstruction)
    if not text or (is_plain and config.data.buckets.crop != "focus"):
        return None
    return _path_of(text)
