"""What training minimises."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base import Section, Ui


class Denoising(Section):
    """The usual objective: predict the noise that was added to a picture."""

    kind: Literal["denoising"] = "denoising"

    caption_dropout: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Caption dropout", level="advanced", search="unconditional empty prompt"),
    ] = 0.0
    """The share of captions replaced by the empty prompt, which keeps guidance working."""


Objective = Denoising
