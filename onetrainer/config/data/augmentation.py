"""Settings of image augmentation."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Flip = Literal["off", "random", "always"]
Amount = Annotated[float, Field(ge=0, le=1)]
_FLIPS = {"random": "random (half of the time)"}


class Augmentation(Section):
    """How images are changed at random; masks and conditioning images are flipped, rotated and
    cropped with them.
    """

    flip: Annotated[
        Flip,
        Ui(
            "Horizontal flip",
            level="advanced",
            choices=_FLIPS,
            search="flip_aug horizontal flip mirror",
        ),
    ] = "off"
    """Mirrors images left to right, which doubles the data. Not for faces, text, or anything with a
    left and a right side."""

    flip_vertical: Annotated[
        Flip,
        Ui("Vertical flip", level="advanced", choices=_FLIPS, search="vertical flip upside down"),
    ] = "off"
    """Mirrors images top to bottom."""

    rotate: Annotated[
        float,
        Field(ge=0, le=45),
        Ui("Rotation", unit="degrees", level="advanced", search="rotation turn"),
    ] = 0.0
    """The largest rotation in either direction. Images are enlarged as needed to leave no empty
    corners. 5 to 15 is usual, 0 is off; more shows more variety and enlarges more."""

    crop_jitter: Annotated[
        float,
        Field(ge=0, le=0.5),
        Ui("Crop jitter", level="advanced", search="crop jitter zoom random crop cut closer"),
    ] = 0.0
    """How much images are enlarged at most before they are cropped: 0.1 is up to a tenth. The crop
    is then taken anywhere, or around the focus point if there is one. 0.1 is usual, 0 is off; more
    shows more variety and less of each image."""

    brightness: Annotated[
        Amount, Ui("Brightness", level="advanced", search="color_aug colour jitter")
    ] = 0.0
    """How much brighter or darker images become at most: 0.1 is a tenth. 0.1 is usual, 0 is off;
    more shows more variety and less of the true colors."""

    contrast: Annotated[Amount, Ui("Contrast", level="advanced")] = 0.0
    """How much the contrast changes at most: 0.1 is a tenth. 0.1 is usual, 0 is off; more shows
    more variety and less of the true colors."""

    saturation: Annotated[Amount, Ui("Saturation", level="advanced")] = 0.0
    """How much stronger or paler colors become at most: 0.1 is a tenth. 0.1 is usual, 0 is off;
    more shows more variety and less of the true colors."""

    hue: Annotated[float, Field(ge=0, le=180), Ui("Hue", unit="degrees", level="advanced")] = 0.0
    """How far colors shift at most around the color circle, in either direction. Up to 10 is usual,
    0 is off; more makes the model care less about colors."""

    fixed: Annotated[
        bool, Ui("Fixed amounts", level="advanced", search="enable_fixed same pictures")
    ] = False
    """Changes every image by the full amounts above, in place of random amounts between them and
    their opposites."""

    variations: Annotated[
        int,
        Field(ge=0, le=1000),
        Ui(
            "Cached variations",
            level="advanced",
            zero="automatic",
            search="image_variations cache",
            only_with={"data.cache_latents": ("*",)},
        ),
    ] = 0
    """How many augmented versions of each image are encoded; each epoch uses another one. 0 means
    two if images are only flipped, four with other random changes, and one without any. Not used
    while latents are not cached: then every step augments its images differently. 0 is usual; more
    shows more variety and takes more time and disk space."""
