"""What is asked for when pictures are to be encoded without training."""

from onetrainer.config.base.section import Section
from onetrainer.config.train import TrainConfig


class CacheRequest(Section):
    """Pictures and captions to be encoded as a run would, for any run with the same settings."""

    config: TrainConfig
    """The run's settings, with absolute paths."""

    folder: str
    """The cache folder."""
