"""Training methods and objectives from the config."""

from dataclasses import dataclass

import torch

from modules.interfaces import Batch, Family, Method, Objective
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings, tokens_in_vocabulary
from modules.methods.full import Full, component_dtypes
from modules.methods.joint import Joint
from modules.methods.model_source import ModelSource
from modules.methods.vae import VaeDecoder
from modules.objectives.denoising import Denoising
from modules.objectives.reconstruction import Reconstruction
from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.full import Vae
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.objectives.prior import OwnPrediction
from onetrainer.config.objectives.reconstruction import Reconstruction as ReconstructionSection
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.families.registry import base_of

# A copy of a whole model is kept in RAM, which is larger, and moved to the device for use.
_HOST = torch.device("cpu")


@dataclass(frozen=True)
class Attached:
    """A method attached to its family.

    Attributes:
        family: Knows the placeholder tokens that are trained.
        notes: Warnings for people.
    """

    family: Family
    method: Method
    notes: tuple[str, ...] = ()


def attach(config: TrainConfig, family: Family, base: Model) -> Attached:
    """Attach the config's method to the family without changing any result yet.

    base: Section of the family's model, with a local path.

    Raises:
        UserError: If files to start from do not fit, or a pattern matches no layer's name.
    """
    section = config.embeddings
    if not section.tokens:
        return _attach_method(config, family, base)
    notes = tuple(
        f'"{token}" is an ordinary word and loses its own meaning'
        for token in tokens_in_vocabulary(family, section)
    )
    extended, embeddings = Embeddings.attach(family, section, seed=config.training.seed)
    if isinstance(config.method, EmbeddingOnly):
        return Attached(extended, embeddings, notes)
    main = _attach_method(config, extended, base)
    return Attached(extended, Joint(main.method, embeddings), notes + main.notes)


def objective_of(
    config: TrainConfig, attached: Attached, *, device: torch.device
) -> Objective[Batch]:
    """Return the objective for images.

    Raises:
        UserError: If a package for it is missing.
    """
    match config.objective:
        case DenoisingSection() as section:
            base_model = attached.method.base_model
            return Denoising(attached.family, section=section, device=device, base_model=base_model)
        case ReconstructionSection() as section:
            return Reconstruction(attached.family, section, device=device)
        case AlignProp():
            raise ValueError("the objective of reward training needs its rewards")


def trained_component_dtypes(config: TrainConfig) -> dict[str, torch.dtype]:
    """Return the dtype of each component whose own weights are trained."""
    if isinstance(config.method, FullSection):
        return component_dtypes(config.method, base_of(config.model.family))
    return {}


def trained_component_names(config: TrainConfig) -> frozenset[str]:
    """Return the components whose own weights are trained, rather than adapters or embeddings."""
    match config.method:
        case FullSection() as method:
            return frozenset(component_dtypes(method, base_of(config.model.family)))
        case Vae():
            return frozenset({"vae"})
        case AdapterSection() | EmbeddingOnly():
            return frozenset()


def _attach_method(config: TrainConfig, family: Family, base: Model) -> Attached:
    """Attach everything except embeddings."""
    original = _HOST if needs_base_predictions(config) else None
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
        case AdapterSection() as section:
            adapters = Adapters.attach(family, section, seed=config.training.seed)
            return Attached(family, adapters, adapters.notes)
        case EmbeddingOnly():
            raise ValueError("there are no embeddings to train")


def needs_base_predictions(config: TrainConfig) -> bool:
    """Return whether the objective uses the base model's predictions."""
    match config.objective:
        case AlignProp(keep=keep, evaluation=evaluation):
            return keep.anchor > 0 or evaluation.distance
        case DenoisingSection(prior=prior, mask=mask):
            roles = {concept.role for concept in concepts_of(config)}
            if "own_prediction" in roles or ("prior" in roles and isinstance(prior, OwnPrediction)):
                return True
            return mask.prior_weight > 0 and has_masks(config)
        case ReconstructionSection():
            return False
