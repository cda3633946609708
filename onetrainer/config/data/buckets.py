"""Settings of buckets: the sizes that images are scaled and cropped to."""

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
    """Images are scaled to about this many pixels squared. 512, 768 or 1024 is usual; more shows
    more detail and needs more memory and time."""


class Size(Section):
    """One fixed size."""

    width: Annotated[Side, Ui("Width", unit="px", like="data.resolution")] = 512
    """The width of the images. The model's own size is usual, 512 or 1024; more shows more and
    takes more time and memory."""

    height: Annotated[Side, Ui("Height", unit="px", like="data.resolution")] = 512
    """The height of the images. The model's own size is usual, 512 or 1024; more shows more and
    takes more time and memory."""


class Buckets(Section):
    """The sizes that images are scaled and cropped to."""

    step: Annotated[
        int,
        Field(ge=0, le=128, multiple_of=8),
        Ui(
            "Bucket step",
            unit="px",
            level="advanced",
            zero="automatic",
            search="bucket_reso_steps divisibility sides steps",
        ),
    ] = 0
    """Every side is a multiple of this. 0 means what the model was trained with, or 8, which keeps
    the area nearly the same in every shape. 0 or 64 is usual; more makes fewer sizes and crops
    more."""

    upscale_limit: Annotated[
        float,
        Field(ge=0, le=16),
        Ui(
            "Max upscaling",
            unit="times",
            level="advanced",
            zero="as needed",
            search="bucket_no_upscale enlarge most",
        ),
    ] = 0.0
    """Images that would be enlarged more than this go into a smaller size; 1 never enlarges. 0
    means no limit. 0 or 1.5 is usual; less keeps small images sharp, in more sizes."""

    crop: Annotated[
        Crop,
        Ui(
            "Crop",
            level="advanced",
            search="random_crop crop jitter focus point cut",
            choices={"focus": "focus point"},
        ),
    ] = "center"
    """Which part of an image is kept if its shape differs from its bucket. "random" takes another
    part for every cached variation, or every time while latents are not cached."""

    focus_x: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Focus X", level="advanced", only_with={"crop": ("focus",)}, search="across"),
    ] = 0.5
    """The horizontal position of the point, from 0 (left) to 1 (right). A list of captions may name
    a point for each image. 0.5 is usual; more keeps more of the right side."""

    focus_y: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Focus Y", level="advanced", only_with={"crop": ("focus",)}, search="down"),
    ] = 0.4
    """The vertical position of the point, from 0 (top) to 1 (bottom); faces are mostly above the
    middle. 0.4 is usual; less keeps more of the top."""

    resolutions: Annotated[
        tuple[Resolution, ...],
        Field(max_length=16),
        Ui("More resolutions", level="advanced", search="multi-resolution several"),
    ] = ()
    """Trains every image at each of these resolutions in turn."""

    sizes: Annotated[
        tuple[Size, ...],
        Field(max_length=200),
        Ui("Fixed sizes", level="advanced", search="aspect_ratio_bucketing off square"),
    ] = ()
    """Images go into the size of this list with the nearest shape; the resolution is not used. A
    single square size is training without buckets."""
