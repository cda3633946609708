"""From what the config wants trained to the method that trains it, and the objective."""

from dataclasses import dataclass

import torch

from modules.interfaces import Batch, Family, Method, Objective
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings, ordinary_words
from modules.methods.full import Full, part_dtypes
from modules.methods.joint import Joint
from modules.methods.model_source import ModelSource
from modules.methods.vae import VaeDecoder
from modules.objectives.denoising import Denoising
from modules.objectives.reconstruction import Reconstruction
from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.methods.adapters import Dora, LoHa, LoKr, Lora, Oft
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.full import Vae
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.objectives.prior import OwnPrediction
from onetrainer.config.objectives.reconstruction import Reconstruction as ReconstructionSection
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.model import Model, base_of
from onetrainer.config.train import TrainConfig

# A whole model's copy is kept where there is most room; it goes to the device when it is asked.
_HOST = torch.device("cpu")


@dataclass(frozen=True)
class Attached:
    """What a run trains.

    family: which knows the words that are learned. notes: what a person should know.
    """

    family: Family
    method: Method
    notes: tuple[str, ...] = ()


def attach(config: TrainConfig, family: Family, base: Model) -> Attached:
    """The method of the config, attached to the family; nothing has changed yet.

    base: the section of the family's model, with a path on this disk. Raises UserError where files
    to go on from do not fit, and for patterns that no layer's name has.
    """
    section = config.embeddings
    if not section.tokens:
        return _attach_main(config, family, base)
    notes = tuple(
        f'"{word}" is an ordinary word, whose own meaning gets lost'
        for word in ordinary_words(family, section)
    )
    knowing, words = Embeddings.attach(family, section, seed=config.training.seed)
    if isinstance(config.method, EmbeddingOnly):
        return Attached(knowing, words, notes)
    main = _attach_main(config, knowing, base)
    return Attached(knowing, Joint(main.method, words), notes + main.notes)


def objective_of(
    config: TrainConfig, attached: Attached, *, device: torch.device
) -> Objective[Batch]:
    """What training minimises, of pictures. Raises UserError if a package for it is missing."""
    match config.objective:
        case DenoisingSection() as section:
            untouched = attached.method.untouched
            return Denoising(attached.family, section=section, device=device, untouched=untouched)
        case ReconstructionSection() as section:
            return Reconstruction(attached.family, section, device=device)
        case AlignProp():
            raise ValueError("what learns from rewards is made with them")


def trained_dtypes(config: TrainConfig) -> dict[str, torch.dtype]:
    """The number format of each part whose own weights train; others have that of computing."""
    if isinstance(config.method, FullSection):
        return part_dtypes(config.method, base_of(config.model.family))
    return {}


def trained_networks(config: TrainConfig) -> frozenset[str]:
    """The networks whose own weights train: adapters and words lie beside them."""
    match config.method:
        case FullSection() as method:
            return frozenset(part_dtypes(method, base_of(config.model.family)))
        case Vae():
            return frozenset({"vae"})
        case _:
            return frozenset()


def _attach_main(config: TrainConfig, family: Family, base: Model) -> Attached:
    """What is trained besides words."""
    original = _HOST if compares_with_before(config) else None
    match config.method:
        case FullSection() as section:
            source = ModelSource.of(base)
            return Attached(
                family, Full.attach(family, section, source=source, keep_original=original)
            )
        case Vae() as section:
            source = ModelSource.of(base)
            return Attached(
                family, VaeDecoder.attach(family, section, source=source, keep_original=original)
            )
        case (Lora() | Dora() | LoHa() | LoKr() | Oft()) as section:
            adapters = Adapters.attach(family, section, seed=config.training.seed)
            return Attached(family, adapters, adapters.notes)
        case EmbeddingOnly():
            raise ValueError("there are no words to learn, and nothing else")


def compares_with_before(config: TrainConfig) -> bool:
    """Whether the objective asks what the model predicted before training."""
    match config.objective:
        case AlignProp(keep=keep, evaluation=watched):
            return keep.anchor > 0 or watched.distance
        case DenoisingSection(prior=prior, mask=mask):
            found = concepts_of(config)
            held = {"own_prediction", *(["prior"] if isinstance(prior, OwnPrediction) else [])}
            is_held = any(concept.role in held for concept in found)
            return is_held or (mask.prior_weight > 0 and has_masks(config))
        case _:
            return False
