"""Settings of one of several image folders (a concept)."""

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
    Field(max_length=10_000, description="The caption of every image, if all share one text."),
    Ui("Caption", only_with={"caption_source": ("text",)}),
]
CaptionList = Annotated[
    str,
    Field(
        description='A .csv or .jsonl file with a line for each image: "file" names it, "caption"'
        " is its caption. A .txt file has one caption per line, in the order of the image names."
    ),
    Ui("List of captions", editor="file", only_with={"caption_source": ("list",)}),
]
# The first folder and further ones have these three alike. They are types with their sentences, and
# no section to inherit: inherited settings would stand before the folder, in the window and files.


def _mask_folder(*masks: str) -> Ui:
    return Ui(
        "Mask folder",
        editor="folder",
        level="advanced",
        search="conditioning_data_dir masked_loss",
        only_with={"masks": masks},
    )


_MASK_FOLDER = Field(
    description='A folder with a mask for each image, named like it: "cat.png" for "cat.jpg".'
    " Empty uses the masks next to the images."
)
MaskFolder = Annotated[str, _MASK_FOLDER, _mask_folder("files")]
"""The setting of the first folder."""
ConceptMaskFolder = Annotated[str, _MASK_FOLDER, _mask_folder("files", "same")]
"""The same of a further one."""


def _conditioning_folder(name: str) -> Ui:
    return Ui(
        "Conditioning folder",
        editor="folder",
        level="advanced",
        search="conditioning_data_dir condlabel",
        only_with={name: ("files",)},
    )


_CONDITIONING_FOLDER = Field(
    description="A folder with what the model sees of each image, named like it. Empty uses the"
    ' images next to them, such as "cat-condlabel.png".'
)
ConditioningFolder = Annotated[str, _CONDITIONING_FOLDER, _conditioning_folder("conditioning")]
"""The setting of the first folder."""
ConceptConditioningFolder = Annotated[
    str, _CONDITIONING_FOLDER, _conditioning_folder("data.conditioning")
]
"""The same of a further one."""

CAPTION_SOURCES = {
    "files": "text files",
    "names": "file names",
    "folders": "folder names",
    "text": "one text",
    "list": "a list",
}


class Concept(Section):
    """A folder of images in addition to the first one."""

    folder: Annotated[str, Ui("Folder", editor="folder")] = ""
    """A folder of images."""

    name: Annotated[str, Field(max_length=200), Ui("Name")] = ""
    """What it is called in messages, charts and files; empty means the folder's name."""

    role: Annotated[
        Role,
        Ui(
            "Role",
            choices={
                "train": "training",
                "validation": "validation",
                "prior": "class images",
                "own_prediction": "base model's prediction",
            },
            search="type is_reg regularization validation prior used",
        ),
    ] = "train"
    """What its images are for: "train" trains on them; "validation" only measures the loss on them;
    "prior" trains on them as class images, which keep the model from forgetting; "own_prediction"
    keeps the model close to its predictions from before training."""

    use: Annotated[bool, Ui("Use", search="enabled on off")] = True
    """Off leaves this folder out."""

    include_subfolders: Annotated[bool, Ui("Include subfolders", level="advanced")] = False
    """Also uses the images in subfolders."""

    repeats: Annotated[
        float,
        Field(ge=0.001, le=10_000),
        Ui("Repeats", search="balancing num_repeats", only_with={"images": ("0",)}),
    ] = 1.0
    """How many times each of its images is used per epoch; with 0.5, every second epoch. More gives
    this folder more weight. 1 is usual."""

    images: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        Ui("Images per epoch", unit="images", zero="by repeats", search="balancing samples each"),
    ] = 0
    """Uses exactly this many of its images in each epoch, in turn; 0 uses repeats instead. 0 is
    usual; more gives this folder more weight."""

    loss_weight: Annotated[
        float, Field(ge=0, le=1000), Ui("Loss weight", level="advanced", search="weight")
    ] = 1.0
    """The weight of its images in the loss, compared to those of other folders. 1 is usual; more
    trains them more strongly, less more gently."""

    resolution: Annotated[
        int,
        Field(ge=0, le=4096, multiple_of=8),
        Ui("Resolution", unit="px", level="advanced", zero="as for all"),
    ] = 0
    """The resolution of its images; 0 means that of all. 0 is usual; more shows more detail and
    takes more memory and time."""

    caption_source: Annotated[
        CaptionSource, Ui("Captions from", choices=CAPTION_SOURCES, search="prompt_source")
    ] = "files"
    """Where captions come from: text "files" next to the images, the "names" of the images, the
    "folders" they are in, one "text" for all, or a "list" file that names each image."""

    caption_text: CaptionText = ""
    caption_list: CaptionList = ""

    trigger: Annotated[
        str,
        Field(max_length=1000),
        Ui("Trigger words", search="activation instance token class_tokens keyword"),
    ] = ""
    """Words that are put in front of every caption, such as a made-up name; they are never shuffled
    or dropped. Captions that already begin with them stay as they are."""

    masks: Annotated[
        Literal["same", "off", "files", "alpha"],
        Ui(
            "Masks",
            level="advanced",
            choices={
                "same": "as for all",
                "off": "none",
                "files": "image files",
                "alpha": "transparency",
            },
        ),
    ] = "same"
    """What marks the parts of its images that are trained; "same" means as set for all."""

    mask_folder: ConceptMaskFolder = ""

    conditioning_folder: ConceptConditioningFolder = ""

    seed: Annotated[
        int, Field(ge=0, lt=2**63), Ui("Seed", level="advanced", zero="that of the run")
    ] = 0
    """The seed of its order, captions and augmentation; 0 means that of the run."""

    own_captions: Annotated[
        bool, Ui("Own caption settings", level="advanced", search="changes captions")
    ] = False
    """Uses caption settings of its own for this folder, in place of those for all."""

    captions: Captions = Captions.default()

    own_augmentation: Annotated[
        bool, Ui("Own augmentation", level="advanced", search="changes pictures")
    ] = False
    """Uses augmentation settings of its own for this folder, in place of those for all."""

    augmentation: Augmentation = Augmentation.default()
