"""The training objectives."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp

Objective = Annotated[Denoising | Reconstruction | AlignProp | Slider, Field(discriminator="kind")]
