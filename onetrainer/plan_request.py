"""What a forecast of memory is asked for."""

import math
import re
from typing import Annotated

from pydantic import Field

from onetrainer.config.base import Section
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError

MOST_GB = 1_000_000


class PlanRequest(Section):
    """How much memory a run would take, and what would lower it."""

    config: TrainConfig
    """The run's settings. Neither its model nor its pictures need to be there."""

    memory: Annotated[float, Field(ge=0, le=MOST_GB)] = 0.0
    """Plans for a graphics card with so many GB of memory, all of it free; 0 means for this
    computer and what is free there now."""

    cures: bool = True
    """Also looks for settings that lower the peak, where it does not fit."""


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
