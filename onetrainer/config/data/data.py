"""Which pictures are learnt."""

from typing import Annotated, Literal

from pydantic import Field

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
    Masks,
)

Conditioning = Literal["blank", "masks", "files"]
MOST_CONCEPTS = 200


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

    caption_source: Annotated[
        CaptionSource,
        Ui(
            "Captions from",
            search="prompt_source caption extension filename csv jsonl metadata",
            choices=CAPTION_SOURCES,
            lead="What is said about the pictures of the folder.",
        ),
    ] = "files"
    """Where captions come from: "files" beside the pictures, "names" of the pictures themselves,
    "folders" that they lie in, "text" for all of them, or "list", a file that names each picture.
    Further folders have a source of their own."""

    caption_text: CaptionText = ""
    caption_list: CaptionList = ""

    trigger: Annotated[
        str,
        Field(max_length=1000),
        Ui("Trigger words", level="advanced", search="activation instance token keyword"),
    ] = ""
    """Words that every caption of this folder begins with, such as a made-up name; they are never
    shuffled nor dropped. A caption that begins with them already stays as it is. Further folders
    have trigger words of their own."""

    require_captions: Annotated[bool, Ui("Require captions", level="advanced")] = True
    """Refuses a folder in which no picture has a caption; off means empty captions are meant."""

    concepts: Annotated[
        tuple[Concept, ...],
        Field(max_length=MOST_CONCEPTS),
        Ui("More folders", level="advanced", search="concepts subsets datasets repeats balancing"),
    ] = ()
    """More folders of pictures, each with a role, repeats, captions and trigger words of its own.
    Sizes, masks and changes are those for all, unless a folder says otherwise."""

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

    conditioning: Annotated[
        Conditioning,
        Ui(
            "Inpainting sees",
            level="advanced",
            search="custom_conditioning_image condlabel inpainting",
            choices={
                "blank": "nothing, all is to be painted",
                "masks": "what is outside the mask",
                "files": "pictures of its own",
            },
            only_with={"model.family": ("sd15-inpainting", "sd2-inpainting", "sdxl-inpainting")},
        ),
    ] = "blank"
    """What an inpainting model is shown of the picture that it is to paint: with "masks" all that
    the mask leaves out; with "files" the picture named like "cat-condlabel.png", where there is
    one."""

    class_folder: Annotated[
        str,
        Ui(
            "Class pictures",
            editor="folder",
            level="advanced",
            search="regularisation regularization prior preservation reg dreambooth",
        ),
    ] = ""
    """A folder of pictures of what the model is not to forget, such as other cats beside yours.
    Each epoch shows as many of them as there are pictures to learn; empty means none."""

    class_text: Annotated[
        str,
        Field(max_length=10_000),
        Ui(
            "Caption of class pictures",
            level="advanced",
            search="class prompt class_prompt reg caption",
            only_with={"class_folder": ("*",)},
        ),
    ] = ""
    """The caption of every class picture, such as "a photo of a cat". Empty takes each one's own,
    from text files, or from names where those of the pictures to learn come from there."""

    buckets: Buckets = Buckets()
    captions: Captions = Captions()
    augmentation: Augmentation = Augmentation()

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

    latents: Annotated[
        Literal["sample", "mean"],
        Ui(
            "Latents",
            level="advanced",
            search="posterior moments vae sample mean",
            choices={"sample": "drawn anew in every step", "mean": "always their mean"},
        ),
    ] = "sample"
    """The VAE leaves open what exactly a picture's latent is. "sample" draws one within that in
    every step, as the model itself was trained; "mean" takes the middle, always the same."""

    cache_folder: Annotated[str, Ui("Cache folder", editor="new-folder", level="advanced")] = ""
    """Where encoded pictures and captions are kept between runs; empty means a "cache" folder
    beside the run folders."""

    cache_limit: Annotated[
        float,
        Field(ge=0, le=1_000_000),
        Ui("Keep at most", unit="GB", level="advanced", zero="all", search="disk space prune"),
    ] = 50.0
    """When the cache folder takes more than so many GB, what was not used for longest is removed
    from it; never what this run uses. 0 keeps all."""

    cache_batch: Annotated[
        int,
        Field(ge=1, le=64),
        Ui("Encode at once", unit="pictures", level="advanced", search="vae_batch_size"),
    ] = 1
    """How many pictures are encoded at once while caching. More may be faster on a large graphics
    card; where its memory is too small for so many, caching goes on with half of them."""

    loader_threads: Annotated[
        int,
        Field(ge=0, le=64),
        Ui("Loading threads", level="advanced", search="dataloader workers threads"),
    ] = 2
    """How many threads read pictures ahead of training. The order of the pictures does not depend
    on it. 0 reads them within the steps."""
