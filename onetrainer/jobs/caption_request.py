"""The request to describe images with a model, and how captions and masks are made of that."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.run.hardware import Device

Makes = Literal["captions", "masks"]
Existing = Literal["keep", "replace", "before", "after"]
LEAST_SCORE = 0.1
"""Tags below this are not kept in results; thresholds begin here."""


class CaptionRequest(Section):
    """Images, and the model that describes them."""

    images: Annotated[str, Ui("Images", unit="IMAGES", editor="folder")]
    """The folder of images. Nothing of an image is ever changed."""

    model: Annotated[str, Ui("Model", unit="MODEL", editor="model")]
    """The model: a folder, an .onnx file, or a name on the Hugging Face Hub. What it is follows
    from its files."""

    makes: Makes = "captions"
    """What the results are for."""

    prompt: Annotated[str, Field(max_length=4000), Ui("Prompt", editor="text")] = ""
    """Vision-language models: what to ask. BLIP: how each caption begins. Florence-2: one of its
    tasks, such as <CAPTION>. CLIPSeg: what is white in the mask, such as "a face, hair"; separate
    several things by commas. The model's usual prompt if left out."""

    max_tokens: Annotated[int, Field(ge=1, le=2048), Ui("Longest text", unit="TOKENS")] = 160
    """The most tokens of a text, about three quarters as many words."""

    subfolders: Annotated[bool, Ui("Include subfolders")] = False
    """Also uses the images in subfolders."""

    limit: Annotated[int, Field(ge=0), Ui("Limit", unit="N")] = 0
    """Only so many images, spread evenly over the folder; 0 for all."""

    batch_size: Annotated[int, Field(ge=1, le=256), Ui("Images at once", unit="N")] = 1
    """How many images the model sees at once. More is faster on a GPU, and takes more memory."""

    device: Annotated[
        Device,
        Ui(
            "Device",
            choices={
                "auto": "automatic",
                "cuda": "GPU",
                **{f"cuda:{index}": f"GPU {index}" for index in range(8)},
                "mps": "Apple GPU",
                "cpu": "CPU",
            },
        ),
    ] = "auto"
    """Where the model runs; "auto" is the GPU if there is one."""

    offline: Annotated[bool, Ui("Offline")] = False
    """Never downloads: a model of the Hub must have been downloaded before."""


class CaptionWriting(Section):
    """How a caption is made of what a model found."""

    threshold: Annotated[float, Field(ge=LEAST_SCORE, le=1), Ui("Tag threshold")] = 0.35
    """Taggers: general tags that the model is at least so sure of. Lower finds more, and more that
    is wrong."""

    character_threshold: Annotated[
        float, Field(ge=LEAST_SCORE, le=1), Ui("Character threshold")
    ] = 0.85
    """Taggers: the same for names of characters; 1 leaves nearly all of them out."""

    exclude: Annotated[str, Ui("Leave out", unit="TAG,TAG")] = ""
    """Taggers: tags that are never written, separated by commas."""

    keep_underscores: Annotated[bool, Ui("Keep underscores")] = False
    """Taggers: writes "long_hair" instead of "long hair"."""

    rating: Annotated[bool, Ui("Rating")] = False
    """Taggers: also writes the rating (general, sensitive, questionable, explicit) as last tag."""

    prefix: Annotated[str, Ui("Begin with", unit="TEXT")] = ""
    """A text in front of every caption, such as trigger words. It is not repeated in front of a
    caption that begins with it."""

    existing: Annotated[
        Existing,
        Ui(
            "Captions of your own",
            choices={
                "keep": "are kept",
                "replace": "are replaced",
                "before": "get the new text before theirs",
                "after": "get the new text after theirs",
            },
        ),
    ] = "keep"
    """What becomes of captions that this program has not written itself. "keep" leaves them as they
    are."""


class MaskWriting(Section):
    """How a mask is made of what a model found. White is what is trained."""

    threshold: Annotated[float, Field(ge=0, le=1), Ui("Mask threshold")] = 0.5
    """From which value on a pixel is white; 0 keeps the model's own grays."""

    grow: Annotated[float, Field(ge=-20, le=20), Ui("Grow (%)", unit="PERCENT")] = 0.0
    """Grows the white area by so much of the image's shorter side; a negative number shrinks it.
    Other than 0 it leaves only white and black."""

    feather: Annotated[float, Field(ge=0, le=25), Ui("Feather (%)", unit="PERCENT")] = 0.5
    """The radius of the soft edge, of the image's shorter side."""

    invert: Annotated[bool, Ui("Invert")] = False
    """Exchanges white and black: trains what the model did not find."""

    mask_folder: Annotated[str, Ui("Mask folder", unit="FOLDER", editor="folder")] = ""
    """Where the masks are written, each with its image's name, as data.mask_folder expects them.
    Next to the images if left out."""

    existing: Annotated[
        Literal["keep", "replace"],
        Ui("Masks of your own", choices={"keep": "are kept", "replace": "are replaced"}),
    ] = "keep"
    """What becomes of masks that this program has not written itself. "keep" leaves them as they
    are."""
