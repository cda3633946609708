"""Settings of the images to train on."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.prompt_weights import PROMPT_WEIGHTS, PromptWeights
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.config.data.buckets import Buckets
from onetrainer.config.data.captions import Captions
from onetrainer.config.data.concept import (
    CAPTION_SOURCES,
    CaptionList,
    CaptionSource,
    CaptionText,
    Concept,
    ConditioningFolder,
    MaskFolder,
    Masks,
)
from onetrainer.families.registry import families_with

Conditioning = Literal["blank", "masks", "files"]
MAX_CONCEPTS = 200


class Data(Section):
    """The image folders and how their images are prepared."""

    folder: Annotated[
        str, Ui("Images", editor="folder", search="dataset images concept pictures")
    ] = ""
    """A folder of images, each with its caption in a .txt or .caption file of the same name."""

    include_subfolders: Annotated[bool, Ui("Include subfolders", level="advanced")] = False
    """Also uses the images in subfolders."""

    resolution: Annotated[
        int, Field(ge=64, le=4096, multiple_of=8), Ui("Resolution", unit="px", search="size")
    ] = 512
    """Images are scaled to about this many pixels squared, keeping their shape. Models
    work best at the size that they were trained with, usually 512, 768 or 1024. More shows more
    detail and needs more memory and time."""

    caption_source: Annotated[
        CaptionSource,
        Ui(
            "Captions from",
            search="prompt_source caption extension filename csv jsonl metadata",
            choices=CAPTION_SOURCES,
            lead="The captions of the folder's images.",
        ),
    ] = "files"
    """Where captions come from: text "files" next to the images, the "names" of the images, the
    "folders" they are in, one "text" for all, or a "list" file that names each image. Further
    folders have a source of their own."""

    caption_text: CaptionText = ""
    caption_list: CaptionList = ""

    trigger: Annotated[
        str,
        Field(max_length=1000),
        Ui("Trigger words", search="activation instance token keyword"),
    ] = ""
    """Words that are put in front of every caption of this folder, and call up what was trained in
    a prompt; they are never shuffled or dropped. A made-up name such as "ohwx cat" is usual.
    Captions that already begin with them stay as they are. Further folders have their own. The
    finished file names them, unless others are written for it."""

    require_captions: Annotated[bool, Ui("Require captions", level="advanced")] = True
    """Refuses a folder in which no image has a caption; off allows empty captions."""

    concepts: Annotated[
        tuple[Concept, ...],
        Field(max_length=MAX_CONCEPTS),
        Ui("More folders", level="advanced", search="concepts subsets datasets repeats balancing"),
    ] = ()
    """More folders of images, each with its own role, repeats, captions and trigger words. Sizes,
    masks and augmentation are shared, unless a folder sets its own."""

    masks: Annotated[
        Masks,
        Ui(
            "Masks",
            search="masked training mask alpha transparency",
            choices={"off": "none", "files": "image files", "alpha": "transparency"},
        ),
    ] = "off"
    """What marks the parts of an image that are trained: "files" are images named like
    "cat-masklabel.png" for "cat.jpg", white where it is trained; "alpha" is the image's own
    transparency. Images without a mask are trained whole."""

    mask_folder: MaskFolder = ""

    conditioning: Annotated[
        Conditioning,
        Ui(
            "Inpainting conditioning",
            level="advanced",
            search="custom_conditioning_image condlabel inpainting sees",
            choices={
                "blank": "blank (paint everything)",
                "masks": "masked image",
                "files": "image files",
            },
            only_with={"model.family": families_with(lambda spec: spec.sees_masked_image)},
        ),
    ] = "blank"
    """What an inpainting model sees of the image it paints: nothing; with "masks" everything
    outside the mask; with "files" the image named like "cat-condlabel.png", if there is one."""

    conditioning_folder: ConditioningFolder = ""

    caption_weights: Annotated[
        PromptWeights,
        Ui(
            "Caption weights",
            level="advanced",
            search="weighted captions emphasis attention parentheses brackets",
            choices=PROMPT_WEIGHTS,
        ),
    ] = "off"
    """Whether (word:1.3) in captions, and in prompts of reward training, gives a word more weight
    or less; (word) is 1.1. Off, as usual, reads parentheses as text."""

    class_folder: Annotated[
        str,
        Ui(
            "Class images",
            editor="folder",
            level="advanced",
            search="regularisation regularization prior preservation reg dreambooth pictures",
        ),
    ] = ""
    """A folder of images of what the model should not forget, such as other cats in addition to
    yours (prior preservation). Each epoch uses as many of them as there are training images; empty
    means none."""

    class_text: Annotated[
        str,
        Field(max_length=10_000),
        Ui(
            "Class caption",
            level="advanced",
            search="class prompt class_prompt reg caption pictures",
            only_with={"class_folder": ("*",)},
        ),
    ] = ""
    """The caption of every class image, such as "a photo of a cat". Empty uses each one's own, from
    text files, or from names if the training images' captions come from there."""

    buckets: Buckets = Buckets.default()
    captions: Captions = Captions.default()
    augmentation: Augmentation = Augmentation.default()

    cache_latents: Annotated[
        bool,
        Ui(
            "Cache latents",
            level="advanced",
            search="latents latent caching vae vram memory pictures",
            lead="What is computed once, before training, and stored.",
        ),
    ] = True
    """Encodes every image once, before training. Off encodes images in every step: slower, and the
    VAE takes GPU memory."""

    cache_text: Annotated[
        bool,
        Ui(
            "Cache captions",
            level="advanced",
            search="text encoder outputs caching vram memory",
        ),
    ] = True
    """Encodes every caption once, before training. Off encodes captions in every step, as always
    happens while a text encoder or an embedding trains."""

    latents: Annotated[
        Literal["sample", "mean"],
        Ui(
            "Latent sampling",
            level="advanced",
            search="posterior moments vae sample mean latents",
        ),
    ] = "sample"
    """The VAE gives each image a distribution of latents. "sample" takes a random one in every
    step, as in the model's own training; "mean" always takes the mean."""

    cache_folder: Annotated[str, Ui("Cache folder", editor="new-folder", level="advanced")] = ""
    """Where encoded images and captions are stored between runs; empty means a "cache" folder next
    to the run folders."""

    cache_limit: Annotated[
        float,
        Field(ge=0, le=1_000_000),
        Ui(
            "Cache size limit",
            unit="GB",
            level="advanced",
            zero="all",
            search="disk space prune keep most",
        ),
    ] = 50.0
    """When the cache folder exceeds this size, the entries not used for longest are deleted, but
    never what this run uses. 0 means no limit. 50 is usual; more keeps the images of more
    projects."""

    cache_batch: Annotated[
        int,
        Field(ge=1, le=64),
        Ui(
            "Cache batch size",
            unit="images",
            level="advanced",
            search="vae_batch_size encode once",
        ),
    ] = 1
    """How many images are encoded at once while caching. More may be faster on a large GPU; if
    memory runs out, the batch is halved. 1 is usual."""

    loader_threads: Annotated[
        int,
        Field(ge=0, le=64),
        Ui("Data loader threads", level="advanced", search="dataloader workers threads loading"),
    ] = 2
    """How many threads load images in advance. The order of the images does not depend on it. 0
    loads them within the steps, as training on the CPU does with cached images. 2 is usual; more
    helps with a fast GPU and large images."""
