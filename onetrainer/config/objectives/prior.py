"""What pictures teach that are there to keep what the model knows."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

PriorWeight = Annotated[
    float,
    Field(ge=0, le=1000),
    Ui(
        "Prior weight",
        level="advanced",
        search="prior_loss_weight regularization class",
        only_with={"data.class_folder": ("*",)},
        or_with={"data.concepts.*.role": ("prior", "own_prediction")},
    ),
]


class ClassImages(Section):
    """Prior pictures are learnt like any other, with their own weight (Ruiz et al. 2022)."""

    title: ClassVar[str] = "the pictures as they are"
    kind: Literal["class_images"] = "class_images"

    weight: PriorWeight = 1.0
    """How much a prior picture counts beside one that is to be learnt."""


class OwnPrediction(Section):
    """Prior pictures hold the model to what it predicted for them before training."""

    title: ClassVar[str] = "the untrained model's prediction"
    kind: Literal["own_prediction"] = "own_prediction"

    weight: PriorWeight = 1.0
    """How much a prior picture counts beside one that is to be learnt."""


Prior = Annotated[ClassImages | OwnPrediction, Field(discriminator="kind")]
