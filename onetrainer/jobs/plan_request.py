"""Requests about the config of a run: to forecast its memory, and to encode its images."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.items import Header, HeaderCache
from onetrainer.errors import UserError

MOST_GB = 1_000_000


class PlanRequest(Section):
    """The request for the memory that a run takes, and for settings that lower it."""

    config: TrainConfig
    """The run's settings. Neither its model nor its images need to exist."""

    memory: Annotated[float, Field(ge=0, le=MOST_GB)] = 0.0
    """Plans for a GPU with this many GB of free memory; 0 for this computer and the memory that
    is free now."""

    headers: dict[str, tuple[int, int, bool]] = Field(default_factory=dict)
    """Width, height and presence of alpha of images that were read before, by path."""

    steps: dict[str, int] = Field(default_factory=dict)
    """Steps of lengths and intervals in epochs or images, by their text, as the images tell."""

    only_speed: bool = False
    """Measures how fast this device is, and nothing else."""

    fixes: bool = True
    """Also searches for settings that lower the peak if it does not fit."""


class CacheRequest(Section):
    """Images and captions to encode into the cache, for any run with the same settings."""

    config: TrainConfig
    """The run's settings, with absolute paths."""

    folder: str
    """The cache folder."""


class RecordedHeaders:
    """Image headers, each recorded at its first request and read only once.

    Args:
        recorded: Headers from a request.
        memory: The headers of other images, if they are remembered.
    """

    def __init__(
        self, recorded: Mapping[str, tuple[int, int, bool]], memory: HeaderCache | None = None
    ) -> None:
        self.recorded = dict(recorded)
        self.memory = memory

    def cached_header(self, path: Path) -> Header | None:
        """Return the header of a file; None if it has to be read."""
        if (values := self.recorded.get(str(path))) is not None:
            return Header(*values)
        header = self.memory.cached_header(path) if self.memory else None
        if header is not None:
            self._record(path, header)
        return header

    def store_header(self, path: Path, header: Header) -> None:
        """Record a header that was just read."""
        self._record(path, header)
        if self.memory:
            self.memory.store_header(path, header)

    def _record(self, path: Path, header: Header) -> None:
        self.recorded[str(path)] = header.width, header.height, header.has_alpha


def gigabytes(text: str) -> float:
    """Parse a GPU's memory in GB: "8", "7.3", "8GB", "8 GB".

    Raises:
        UserError: If the text is no number, or no plausible amount.
    """
    try:
        size = float(re.sub(r"\s*gi?b?\s*$", "", text, flags=re.IGNORECASE))
    except ValueError:
        size = math.nan
    if not 0 < size <= MOST_GB:  # also false for NaN
        raise UserError(
            f'--memory "{text}": this is not an amount of memory',
            "Expected the free GB of a GPU, above 0, such as 7.3 or 8GB",
            "Correct it, or leave it out to plan for this computer.",
        )
    return size
