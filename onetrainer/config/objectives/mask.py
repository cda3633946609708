"""What masks do to the loss."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

_WITH_MASKS = {"data.masks": ("files", "alpha")}
_OR_WITH_OWN = {"data.concepts.*.masks": ("files", "alpha")}


class Mask(Section):
    """How pictures that have a mask are trained; those without one pay no heed."""

    unmasked_weight: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Weight outside the mask",
            level="advanced",
            search="unmasked_weight masked training",
            lead="These count for pictures with a mask.",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = 0.1
    """How much the parts that a mask leaves out still count. A little keeps them from falling
    apart."""

    unmasked_probability: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Shown without mask",
            level="advanced",
            search="unmasked_probability masked training",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = 0.0
    """The chance of a picture to be trained as if it had no mask, drawn anew every time."""

    normalize_area: Annotated[
        bool,
        Ui(
            "Same weight for every mask",
            level="advanced",
            search="normalize_masked_area_loss",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = False
    """Lets pictures count the same however small their masks are. Otherwise a mask that leaves
    half of a picture halves what is learnt from it."""

    prior_weight: Annotated[
        float,
        Field(ge=0, le=1000),
        Ui(
            "Keep what is outside",
            level="advanced",
            search="masked_prior_preservation_weight",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = 0.0
    """How much the parts outside the mask are held to what the model drew there before training.
    0 is off; above it every such step computes the model twice."""
