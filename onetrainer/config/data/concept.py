"""One of several folders of pictures, with what is its own."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.config.data.captions import Captions

Masks = Literal["off", "files", "alpha"]
Role = Literal["train", "validation", "prior", "own_prediction"]
CaptionSource = Literal["files", "names", "folders", "text", "list"]

CaptionText = Annotated[
    str,
    Field(
        max_length=10_000, description="The caption of every picture, where one text is for all."
    ),
    Ui("Caption", only_with={"caption_source": ("text",)}),
]
CaptionList = Annotated[
    str,
    Field(
        description='A .csv or .jsonl file with a line for each picture: "file" names it, "caption"'
        " is said of it. A .txt file has one caption a line, in the order of the pictures' names."
    ),
    Ui("List of captions", editor="file", only_with={"caption_source": ("list",)}),
]
# The first folder and further ones have these two alike. They are types with their sentences, and
# no section to inherit: inherited settings would stand before the folder, in the window and files.

CAPTION_SOURCES = {
    "files": "text files",
    "names": "file names",
    "folders": "folder names",
    "text": "one text",
    "list": "a list",
}


class Concept(Section):
    """A folder of pictures beside the first one."""

    folder: Annotated[str, Ui("Folder", editor="folder")] = ""
    """A folder of pictures."""

    name: Annotated[str, Field(max_length=200), Ui("Name")] = ""
    """What it is called in messages, charts and files; empty means as its folder."""

    role: Annotated[
        Role,
        Ui(
            "Used to",
            choices={
                "train": "learn",
                "validation": "validate",
                "prior": "keep what is shown",
                "own_prediction": "keep what is known",
            },
            search="type is_reg regularization validation prior",
        ),
    ] = "train"
    """What its pictures are for: "train" learns them; "validation" holds them out of learning and
    measures them; "prior" shows class pictures, which keep the model from forgetting;
    "own_prediction" holds the model to what it made of them before training."""

    use: Annotated[bool, Ui("Use", search="enabled on off")] = True
    """Off leaves this folder out, as if it were not here."""

    include_subfolders: Annotated[bool, Ui("Include subfolders", level="advanced")] = False
    """Also takes the pictures in folders within the folder."""

    repeats: Annotated[
        float,
        Field(ge=0.001, le=10_000),
        Ui("Repeats", search="balancing num_repeats", only_with={"images": ("0",)}),
    ] = 1.0
    """How often each of its pictures is shown in an epoch; with a half, every second epoch."""

    images: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        Ui("Each epoch", unit="pictures", zero="by repeats", search="balancing samples"),
    ] = 0
    """Shows exactly so many of its pictures in each epoch, in turn; 0 goes by repeats."""

    loss_weight: Annotated[
        float, Field(ge=0, le=1000), Ui("Loss weight", level="advanced", search="weight")
    ] = 1.0
    """How much each of its pictures counts beside those of other folders."""

    resolution: Annotated[
        int,
        Field(ge=0, le=4096, multiple_of=8),
        Ui("Resolution", unit="px", level="advanced", zero="as for all"),
    ] = 0
    """The resolution of its pictures; 0 means that of the others."""

    caption_source: Annotated[
        CaptionSource, Ui("Captions from", choices=CAPTION_SOURCES, search="prompt_source")
    ] = "files"
    """Where captions come from: "files" beside the pictures, "names" of the pictures themselves,
    "folders" that they lie in, "text" for all of them, or "list", a file that names each
    picture."""

    caption_text: CaptionText = ""
    caption_list: CaptionList = ""

    trigger: Annotated[
        str,
        Field(max_length=1000),
        Ui("Trigger words", search="activation instance token class_tokens keyword"),
    ] = ""
    """Words that every caption begins with, such as a made-up name; they are never shuffled nor
    dropped. A caption that begins with them already stays as it is."""

    masks: Annotated[
        Literal["same", "off", "files", "alpha"],
        Ui(
            "Masks",
            level="advanced",
            choices={
                "same": "as for all",
                "off": "none",
                "files": "picture files",
                "alpha": "transparency",
            },
        ),
    ] = "same"
    """What says which parts of its pictures count; "same" means what is set for all."""

    seed: Annotated[
        int, Field(ge=0, lt=2**63), Ui("Seed", level="advanced", zero="that of the run")
    ] = 0
    """The order of its pictures, their captions and changes come from this number; 0 means from
    that of the run."""

    own_captions: Annotated[bool, Ui("Own changes of captions", level="advanced")] = False
    """Changes the captions of this folder by settings of its own, in place of those for all."""

    captions: Captions = Captions()

    own_augmentation: Annotated[bool, Ui("Own changes of pictures", level="advanced")] = False
    """Changes the pictures of this folder by settings of its own, in place of those for all."""

    augmentation: Augmentation = Augmentation()
