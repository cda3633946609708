"""Which sizes pictures are brought to, and how they are cut."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Crop = Literal["center", "random", "focus"]
Side = Annotated[int, Field(ge=64, le=8192, multiple_of=8)]


class Resolution(Section):
    """One more resolution."""

    resolution: Annotated[
        int, Field(ge=64, le=4096, multiple_of=8), Ui("Resolution", unit="px")
    ] = 768
    """Pictures are scaled to about this many pixels squared."""


class Size(Section):
    """One fixed size."""

    width: Annotated[Side, Ui("Width", unit="px", like="data.resolution")] = 512
    """The width of the pictures."""

    height: Annotated[Side, Ui("Height", unit="px", like="data.resolution")] = 512
    """The height of the pictures."""


class Buckets(Section):
    """The sizes that pictures are brought to, and how they are cut to them."""

    step: Annotated[
        int,
        Field(ge=0, le=128, multiple_of=8),
        Ui(
            "Sides in steps of",
            unit="px",
            level="advanced",
            zero="automatic",
            search="bucket_reso_steps divisibility",
        ),
    ] = 0
    """What every side is a multiple of. 0 means 8 for SD 1.5 and SD 2, which keeps the area nearly
    the same in every shape, and 64 for SDXL, as it was trained."""

    upscale_limit: Annotated[
        float,
        Field(ge=0, le=16),
        Ui(
            "Enlarge at most",
            unit="times",
            level="advanced",
            zero="as needed",
            search="bucket_no_upscale",
        ),
    ] = 0.0
    """Pictures that would have to be enlarged more than so many times are brought to a smaller size
    instead; 1 never enlarges one. 0 means no limit."""

    crop: Annotated[
        Crop,
        Ui(
            "Cut",
            level="advanced",
            search="random_crop crop jitter focus point",
            choices={
                "center": "around the middle",
                "random": "anywhere",
                "focus": "around a point",
            },
        ),
    ] = "center"
    """Which part stays of a picture whose shape is not quite that of its size. "random" takes
    another part for every cached variation of it, or every time where pictures are not cached."""

    focus_x: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Focus across", level="advanced", only_with={"crop": ("focus",)}),
    ] = 0.5
    """Where the point lies, from 0 at the left edge to 1 at the right one. A list of captions may
    name a point for each picture."""

    focus_y: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Focus down", level="advanced", only_with={"crop": ("focus",)}),
    ] = 0.4
    """Where the point lies, from 0 at the upper edge to 1 at the lower one; faces are mostly above
    the middle."""

    resolutions: Annotated[
        tuple[Resolution, ...],
        Field(max_length=16),
        Ui("More resolutions", level="advanced", search="multi-resolution several"),
    ] = ()
    """Every picture is shown at each of the resolutions in turn, another one every time."""

    sizes: Annotated[
        tuple[Size, ...],
        Field(max_length=200),
        Ui("Fixed sizes", level="advanced", search="aspect_ratio_bucketing off square"),
    ] = ()
    """Pictures are brought to the one of these sizes whose shape is nearest, whatever the
    resolution is. A single square size is training without buckets."""
