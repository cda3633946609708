"""What a forecast of memory is asked for."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.items import Header, Headers
from onetrainer.errors import UserError

MOST_GB = 1_000_000


class PlanRequest(Section):
    """How much memory a run would take, and what would lower it."""

    config: TrainConfig
    """The run's settings. Neither its model nor its pictures need to be there."""

    memory: Annotated[float, Field(ge=0, le=MOST_GB)] = 0.0
    """Plans for a graphics card with so many GB of memory, all of it free; 0 means for this
    computer and what is free there now."""

    headers: dict[str, tuple[int, int, bool]] = Field(default_factory=dict)
    """Widths, heights, and whether they have alpha, of pictures that were read already, by path."""

    fixes: bool = True
    """Also looks for settings that lower the peak, where it does not fit."""


class SeenHeaders:
    """The headers of pictures as they were when they were asked for first: none is read twice.

    seen: as a request has them. memory: what is remembered of others.
    """

    def __init__(
        self, seen: Mapping[str, tuple[int, int, bool]], memory: Headers | None = None
    ) -> None:
        self.seen = dict(seen)
        self.memory = memory

    def known(self, path: Path) -> Header | None:
        """The header of a file; None if it has to be read."""
        if (found := self.seen.get(str(path))) is not None:
            return Header(*found)
        header = self.memory.known(path) if self.memory else None
        if header is not None:
            self._keep(path, header)
        return header

    def learn(self, path: Path, header: Header) -> None:
        """Keeps a header that has just been read."""
        self._keep(path, header)
        if self.memory:
            self.memory.learn(path, header)

    def _keep(self, path: Path, header: Header) -> None:
        self.seen[str(path)] = header.width, header.height, header.has_alpha


def gigabytes(text: str) -> float:
    """A card's memory as people type it: "8", "7.3", "8GB", "8 GB".

    Raises UserError for anything else, and for what no card has.
    """
    try:
        size = float(re.sub(r"\s*gi?b?\s*$", "", text, flags=re.IGNORECASE))
    except ValueError:
        size = math.nan
    if not 0 < size <= MOST_GB:  # neither is what is not a number
        raise UserError(
            f'--memory "{text}": this is no amount of memory',
            "Expected the free GB of a graphics card, above 0, such as 7.3 or 8GB",
            "Correct it, or leave it out to plan for this computer.",
        )
    return size
