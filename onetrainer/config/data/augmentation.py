"""How pictures change from one showing to the next."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Flip = Literal["off", "random", "always"]
Amount = Annotated[float, Field(ge=0, le=1)]
_FLIPS = {"off": "never", "random": "half of the time", "always": "every time"}


class Augmentation(Section):
    """How pictures are changed; masks and conditioning pictures are cut and turned with them."""

    flip: Annotated[
        Flip, Ui("Mirror", level="advanced", choices=_FLIPS, search="flip_aug horizontal flip")
    ] = "off"
    """Exchanges left and right. Not for faces, writing, or anything that has sides."""

    flip_vertical: Annotated[
        Flip, Ui("Upside down", level="advanced", choices=_FLIPS, search="vertical flip")
    ] = "off"
    """Exchanges top and bottom."""

    rotate: Annotated[
        float, Field(ge=0, le=45), Ui("Turn", unit="degrees", level="advanced", search="rotation")
    ] = 0.0
    """How far pictures are turned at most, either way. They are enlarged as much as it takes to
    leave no empty corners."""

    crop_jitter: Annotated[
        float,
        Field(ge=0, le=0.5),
        Ui("Cut closer", level="advanced", search="crop jitter zoom random crop"),
    ] = 0.0
    """By how much pictures are enlarged at most before they are cut: 0.1 is up to a tenth. The cut
    is then made anywhere; where it is around a point, this stays in it."""

    brightness: Annotated[
        Amount, Ui("Brightness", level="advanced", search="color_aug colour jitter")
    ] = 0.0
    """How much brighter or darker pictures become at most: 0.1 is a tenth."""

    contrast: Annotated[Amount, Ui("Contrast", level="advanced")] = 0.0
    """How much the contrast changes at most: 0.1 is a tenth."""

    saturation: Annotated[Amount, Ui("Saturation", level="advanced")] = 0.0
    """How much colors become stronger or paler at most: 0.1 is a tenth."""

    hue: Annotated[float, Field(ge=0, le=180), Ui("Hue", unit="degrees", level="advanced")] = 0.0
    """How far colors turn at most around the color circle, either way."""

    fixed: Annotated[
        bool, Ui("The same for all pictures", level="advanced", search="enable_fixed")
    ] = False
    """Changes every picture by the whole amounts above, instead of drawing each between them and
    their opposite."""

    variations: Annotated[
        int,
        Field(ge=0, le=1000),
        Ui(
            "Variations to cache",
            level="advanced",
            zero="automatic",
            search="image_variations",
            only_with={"data.cache_latents": ("*",)},
        ),
    ] = 0
    """How many changed versions of each picture are encoded; every epoch shows another one. 0 means
    two where pictures are only mirrored, four where more is drawn, and one where nothing is. Where
    pictures are not cached, each is changed anew every time."""
