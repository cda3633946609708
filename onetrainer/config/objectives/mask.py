"""Settings of masked training."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

_WITH_MASKS = {"data.masks": ("files", "alpha")}
_OR_WITH_OWN = {"data.concepts.*.masks": ("files", "alpha")}


class Mask(Section):
    """How images with a mask are trained; images without one are not affected."""

    unmasked_weight: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Unmasked weight",
            level="advanced",
            search="unmasked_weight masked training outside mask",
            lead="Applies only to images with a mask.",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = 0.1
    """The loss weight outside the mask. A small value keeps these parts from degrading; 0 ignores
    them, 1 ignores the mask. 0.1 is usual; more trains the background more."""

    unmasked_probability: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Unmasked probability",
            level="advanced",
            search="unmasked_probability masked training shown without mask",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = 0.0
    """The probability that an image is trained without its mask in a step. 0 to 0.1 is usual; more
    also trains the background."""

    normalize_area: Annotated[
        bool,
        Ui(
            "Normalize masked area",
            level="advanced",
            search="normalize_masked_area_loss same weight every mask",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = False
    """Gives images the same weight for any mask size. Off, a mask that leaves out half of an image
    halves its loss."""

    prior_weight: Annotated[
        float,
        Field(ge=0, le=1000),
        Ui(
            "Masked prior preservation",
            level="advanced",
            search="masked_prior_preservation_weight keep what outside",
            only_with=_WITH_MASKS,
            or_with=_OR_WITH_OWN,
        ),
    ] = 0.0
    """How strongly the area outside the mask is kept as the base model predicts it. 0 is off; above
    it, every such step needs a second forward pass. 0.5 to 1 is usual with a low unmasked weight;
    more changes it less."""
