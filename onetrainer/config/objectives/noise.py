"""Settings of the noise added to images."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.base.section import Section, Ui


class Noise(Section):
    """Changes to the noise that is added to images."""

    offset: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Offset noise",
            level="advanced",
            search="noise_offset offset_noise_weight dark bright",
            lead="Images are noised with Gaussian noise. These settings add other noise to it.",
        ),
    ] = 0.0
    """Shifts whole latent channels at random, so that very dark and very bright images can be
    trained. 0.05 is usual, 0 is off."""

    offset_by_timestep: Annotated[
        bool,
        Ui(
            "Offset by timestep",
            level="advanced",
            search="generalized_offset_noise adjusted offset psi",
            only_with={"objective.noise.offset": ("*",)},
        ),
    ] = False
    """Scales the offset with the noise, from almost nothing at low noise to full size at the last
    timestep. Source: Kutsuna 2024."""

    pyramid_levels: Annotated[
        int,
        Field(ge=0, le=10),
        Ui("Pyramid noise", unit="levels", level="advanced", search="multires_noise_iterations"),
    ] = 0
    """Adds this many levels of coarser and coarser noise. It helps with large areas as offset noise
    does with whole images. 6 to 10 is usual, 0 is off."""

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
    """The strength of each level of pyramid noise as a fraction of the level before. 0.3 is usual;
    more makes large areas vary more."""

    perturbation: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Perturbation noise", level="advanced", search="perturbation_noise_weight"),
    ] = 0.0
    """Adds more noise of this strength, which the model has to predict as well. 0 is off. Up to 0.1
    is usual; more blurs what is trained."""

    input_perturbation: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Input perturbation", level="advanced", search="ip_noise_gamma exposure bias"),
    ] = 0.0
    """Adds more noise of this strength that the model does not have to predict, which prepares it
    for its own errors in sampling. 0.1 is usual, 0 is off. Source: Ning et al. 2023."""
