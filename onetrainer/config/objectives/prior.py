"""Settings of prior preservation."""

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
    """Class images are trained like other images, with their own weight.

    Source: Ruiz et al. 2022.
    """

    title: ClassVar[str] = "class images"
    kind: Literal["class_images"] = "class_images"

    weight: PriorWeight = 1.0
    """The loss weight of a class image compared to a training image. 1 is usual; more forgets
    less."""


class OwnPrediction(Section):
    """Class images keep the model close to what it predicted for them before training."""

    title: ClassVar[str] = "base model's prediction"
    kind: Literal["own_prediction"] = "own_prediction"

    weight: PriorWeight = 1.0
    """The loss weight of a class image compared to a training image. 1 is usual; more forgets
    less."""


Prior = Annotated[ClassImages | OwnPrediction, Field(discriminator="kind")]
