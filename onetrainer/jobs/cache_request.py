"""The request to encode images and captions without training."""

from onetrainer.config.base.section import Section
from onetrainer.config.train import TrainConfig


class CacheRequest(Section):
    """Images and captions to encode into the cache, for any run with the same settings."""

    config: TrainConfig
    """The run's settings, with absolute paths."""

    folder: str
    """The cache folder."""
