"""Which pictures are learnt."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base import Section, Ui

Masks = Literal["off", "files", "alpha"]


class Data(Section):
    """The folder of pictures and what is done to them before training."""

    folder: Annotated[str, Ui("Pictures", editor="folder", search="dataset images concept")] = ""
    """A folder of pictures, each with its caption in a .txt file of the same name beside it."""

    include_subfolders: Annotated[bool, Ui("Include subfolders", level="advanced")] = False
    """Also takes the pictures in folders within the folder."""

    resolution: Annotated[
        int, Field(ge=64, le=4096, multiple_of=8), Ui("Resolution", unit="px", search="size")
    ] = 512
    """Pictures are scaled to about this many pixels squared, keeping their shape. SD 1.5 was
    trained at 512, SD 2 at 512 or 768, SDXL at 1024."""

    require_captions: Annotated[bool, Ui("Require captions", level="advanced")] = True
    """Refuses a folder in which no picture has a caption; off means empty captions are meant."""

    masks: Annotated[
        Masks,
        Ui(
            "Masks",
            search="masked training mask alpha transparency",
            choices={"off": "none", "files": "picture files", "alpha": "transparency"},
        ),
    ] = "off"
    """What says which parts of a picture count: "files" are pictures beside them, named like
    "cat-masklabel.png" for "cat.jpg" and white where it counts; "alpha" is their own transparency.
    All counts of a picture that has no mask."""

    class_folder: Annotated[
        str,
        Ui(
            "Class pictures",
            editor="folder",
            level="advanced",
            search="regularisation regularization prior preservation reg dreambooth",
        ),
    ] = ""
    """A folder of pictures, with captions, of what the model is not to forget, such as other cats
    beside yours. Each epoch shows as many of them as there are pictures to learn; empty means
    none."""

    cache_latents: Annotated[
        bool,
        Ui(
            "Cache pictures",
            level="advanced",
            search="latents latent caching vae vram memory",
            lead="What is computed once, before training, and kept.",
        ),
    ] = True
    """Encodes every picture once, before training. Off encodes them anew in every step: slower, and
    the VAE takes its share of the device's memory."""

    cache_text: Annotated[
        bool,
        Ui(
            "Cache captions",
            level="advanced",
            search="text encoder outputs caching vram memory",
        ),
    ] = True
    """Encodes every caption once, before training. Off encodes them anew in every step, as is
    always done while a text encoder or a word trains."""

    cache_folder: Annotated[str, Ui("Cache folder", editor="new-folder", level="advanced")] = ""
    """Where encoded pictures and captions are kept between runs; empty means a "cache" folder
    beside the run folders."""
