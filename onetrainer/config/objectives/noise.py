"""What noise pictures are trained with."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Noise(Section):
    """What is mixed into the noise beside what a model is sampled with."""

    offset: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Offset noise",
            level="advanced",
            search="noise_offset offset_noise_weight dark bright",
            lead="Pictures are hidden under plain noise. These mix something else into it.",
        ),
    ] = 0.0
    """Lifts or lowers whole color channels at random, so that very dark and very bright pictures
    can be learnt. 0.05 is usual, 0 is off."""

    offset_by_timestep: Annotated[
        bool,
        Ui(
            "Offset by timestep",
            level="advanced",
            search="generalized_offset_noise adjusted offset psi",
            only_with={"objective.noise.offset": ("*",)},
        ),
    ] = False
    """Lets the offset grow with the noise, from almost nothing where pictures are nearly clean to
    its full size at the last timestep (Kutsuna 2024)."""

    pyramid_levels: Annotated[
        int,
        Field(ge=0, le=10),
        Ui("Pyramid noise", unit="levels", level="advanced", search="multires_noise_iterations"),
    ] = 0
    """Adds coarser and coarser noise, so many times, which does for larger areas what offset noise
    does for whole pictures. 6 to 10 is usual, 0 is off."""

    pyramid_discount: Annotated[
        float,
        Field(gt=0, le=1),
        Ui(
            "Pyramid discount",
            level="advanced",
            search="multires_noise_discount",
            only_with={"objective.noise.pyramid_levels": ("*",)},
        ),
    ] = 0.3
    """The strength of each level of pyramid noise as a share of that of the level before."""

    perturbation: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Perturbation noise", level="advanced", search="perturbation_noise_weight"),
    ] = 0.0
    """Adds a second plain noise of this strength, which the model has to predict with the first.
    0 is off."""

    input_perturbation: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Input perturbation", level="advanced", search="ip_noise_gamma exposure bias"),
    ] = 0.0
    """Adds a second plain noise of this strength that the model is not asked to predict, which
    readies it for its own mistakes in sampling (Ning et al. 2023). 0.1 is usual, 0 is off."""
