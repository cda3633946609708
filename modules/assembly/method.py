"""Training methods and objectives from the config."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from modules.interfaces import Family, Method
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings, tokens_in_vocabulary
from modules.methods.full import Full, component_dtypes
from modules.methods.joint import Joint
from modules.methods.model_source import ModelSource
from modules.methods.vae import VaeDecoder
from modules.objectives.denoising import Denoising
from modules.objectives.inputs import Objective
from modules.objectives.reconstruction import Reconstruction
from onetrainer.concepts.base_predictions import needs_base_predictions
from onetrainer.config.base.encoders import encoder_key
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.full import Vae
from onetrainer.config.methods.method import Method as MethodSection
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.objectives.reconstruction import Reconstruction as ReconstructionSection
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.families.registry import base_of

if TYPE_CHECKING:
    from modules.sharding.sharding import Sharding

# A copy of a whole model is kept in RAM, which is larger, and moved to the device for use.
_HOST = torch.device("cpu")


@dataclass(frozen=True)
class Attached:
    """A method attached to its family.

    Attributes:
        family: Knows the placeholder tokens that are trained.
        notes: Warnings for people.
        sharding: Of the trained networks; None where they are whole.
    """

    family: Family
    method: Method
    notes: tuple[str, ...] = ()
    sharding: "Sharding | None" = None

    def whole_networks(self) -> dict[str, nn.Module]:
        """Return the model's components that are not sharded."""
        family = self.family
        networks = {"unet": family.unet, "vae": family.vae, **family.text_encoders}
        sharded = {} if self.sharding is None else self.sharding.networks
        return {name: each for name, each in networks.items() if name not in sharded}


def attach(
    config: TrainConfig,
    family: Family,
    source: ModelSource | None = None,
    *,
    host: torch.device = _HOST,
    creating: AbstractContextManager[object] | None = None,
) -> Attached:
    """Attach the config's method to the family without changing any result yet.

    source: The family's model, which a trained one is written from; None where only an adapter or
    embeddings are trained. host: Where a copy of the original weights is kept. creating: A
    context in which adapters are created; None for none.

    Raises:
        UserError: If files to start from do not fit, or a pattern matches no layer's name.
    """
    section, embeddings = config.embeddings, None
    notes: tuple[str, ...] = ()
    if section.tokens:
        notes = tuple(
            f'"{token}" is an ordinary word and loses its own meaning'
            for token in tokens_in_vocabulary(family, section)
        )
        family, embeddings = Embeddings.attach(family, section, seed=config.training.seed)
    original = host if needs_base_predictions(config) else None
    main: Method
    match config.method:
        case EmbeddingOnly():
            if embeddings is None:
                raise ValueError("there are no embeddings to train")
            return Attached(family, embeddings, notes)
        case FullSection() as method:
            assert source is not None
            main = Full.attach(family, method, source=source, keep_original=original)
        case Vae() as method:
            assert source is not None
            main = VaeDecoder.attach(family, method, source=source, keep_original=original)
        case AdapterSection() as method:
            with creating or nullcontext():
                main = Adapters.attach(family, method, seed=config.training.seed)
            notes += main.notes
    return Attached(family, Joint(main, embeddings) if embeddings else main, notes)


def objective_of(config: TrainConfig, attached: Attached, *, device: torch.device) -> Objective:
    """Return the objective for images.

    Raises:
        UserError: If a package for it is missing.
    """
    match config.objective:
        case DenoisingSection() as section:
            base_model = attached.method.base_model
            return Denoising(
                attached.family,
                section=section,
                device=device,
                base_model=base_model,
                encoder_dropout=_encoder_dropout(config.method, attached.family),
            )
        case ReconstructionSection() as section:
            return Reconstruction(attached.family, section, device=device)
        case AlignProp() | Slider():
            raise ValueError("this objective trains on prompts")


def _encoder_dropout(method: MethodSection, family: Family) -> dict[str, float]:
    """Return the caption dropout of each text encoder by its name."""
    match method:
        case AdapterSection() | FullSection():
            encoders = method.text_encoders
            return {
                name: encoders[encoder_key(name)].caption_dropout for name in family.text_encoders
            }
        case EmbeddingOnly() | Vae():
            return {}


def trained_component_dtypes(config: TrainConfig) -> dict[str, torch.dtype]:
    """Return the dtype that each component whose own weights are trained is loaded in.

    Components of which only adapters or embeddings are trained do not count.
    """
    match config.method:
        case FullSection() as method:
            return component_dtypes(method, base_of(config.model.family))
        case Vae():
            return {"vae": torch.float32}  # the method casts the decoder from the file's dtype
        case AdapterSection() | EmbeddingOnly():
            return {}
