"""Decide whether captions are encoded once before training or in every step."""

from onetrainer.concepts.concepts import concepts_of
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.encoders import encoder_settings
from onetrainer.config.methods.full import Vae
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_sampling import captions_vary

MAX_VARYING_CAPTIONS = 10_000
"""Most randomly varied captions to cache: 1.2 GB for SD 1.5 in 16 bits, 3.2 GB for SDXL.
Most are used once, so encoding them within the steps takes no longer, but then the text encoders
are needed on the device.
"""


def trains_text_encoder(config: TrainConfig) -> bool:
    """Return whether the weights of a text encoder, or adapters on them, are trained."""
    match config.method:
        case EmbeddingOnly() | Vae():
            return False
        case method:
            encoders = encoder_settings(method, config.model.family)
            return any(settings.train for settings in encoders.values())


def encodes_text_each_step(config: TrainConfig) -> bool:
    """Return whether captions are encoded in every step.

    That is so if their encodings change, caching is off, or there are too many to cache.
    """
    changes = trains_text_encoder(config) or bool(config.embeddings.tokens)
    return changes or not config.data.cache_text or _shows_too_many(config)


def caches_captions(config: TrainConfig) -> bool:
    """Return whether captions are encoded before training; a VAE is trained without any."""
    return not isinstance(config.objective, Reconstruction) and not encodes_text_each_step(config)


def _shows_too_many(config: TrainConfig) -> bool:
    training = config.training
    used = training.steps * training.batch_size * training.accumulation
    return used > MAX_VARYING_CAPTIONS and any(
        captions_vary(one.captions) for one in concepts_of(config)
    )
