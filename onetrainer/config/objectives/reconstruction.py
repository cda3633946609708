"""Settings of the objective of VAE fine-tuning: reconstructing images."""

import importlib.util
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer import install_command
from onetrainer.config.base.section import Section, Ui
from onetrainer.errors import Fix, Problem

LPIPS_EXTRA = "perceptual"
LPIPS_PACKAGES = ("lpips", "torchvision")


class Reconstruction(Section):
    """The difference between decoded images and the originals."""

    title: ClassVar[str] = "reconstruction"
    kind: Literal["reconstruction"] = "reconstruction"

    l1: Annotated[float, Field(ge=0, le=1000), Ui("L1", search="mae absolute")] = 1.0
    """The weight of the mean absolute difference of pixels. 1 is usual, 0 is off; more keeps edges
    exact."""

    l2: Annotated[float, Field(ge=0, le=1000), Ui("L2", search="mse squared")] = 0.0
    """The weight of the mean squared difference of pixels. 0 or 1 is usual; more keeps overall
    colors exact and blurs more."""

    lpips: Annotated[
        float, Field(ge=0, le=1000), Ui("LPIPS", search="perceptual vgg sharpness")
    ] = 0.0
    """The weight of the perceptual difference, as a network sees it; needs extra packages, and
    downloads the network's weights (VGG-16, 530 MB) the first time. 0.1 to 1 is usual, 0 is off;
    more prefers sharp texture to exact pixels. Source: Zhang et al. 2018."""


def missing_packages(section: Reconstruction) -> Problem | None:
    """Return a problem that names the required packages that are not installed; None if all are."""
    missing = [name for name in LPIPS_PACKAGES if importlib.util.find_spec(name) is None]
    if not missing or section.lpips == 0:
        return None
    return Problem(
        "objective.lpips",
        f"LPIPS needs {' and '.join(missing)}, which cannot be found",
        f'They come with the extra "{LPIPS_EXTRA}" of this program',
        f"Install them with: {install_command(LPIPS_EXTRA)}; or set it to 0.",
        fix=Fix("objective.lpips", 0.0),
    )
