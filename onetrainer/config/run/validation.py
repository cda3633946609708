"""Settings of validation: the loss on images that are not trained."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.amount import InSteps, Steps
from onetrainer.config.base.section import Section, Ui

Fraction = Annotated[float, Field(ge=0, le=0.5)]
_WITH = {"validation.use": ("*",)}


class Validation(Section):
    """Measures the loss on images that are not trained, always with the same noise."""

    use: Annotated[
        bool, Ui("Validate", search="validation held-out overfitting overfit early stop loss")
    ] = False
    """Measures the loss on images that are kept out of training. It falls while the model improves
    and rises when it begins to memorize (overfitting)."""

    folder: Annotated[
        str,
        Ui(
            "Validation images",
            editor="folder",
            search="validation set held-out pictures",
            lead="Which images are used: a folder of them, or a fraction of the training images.",
            only_with=_WITH,
        ),
    ] = ""
    """A folder of validation images with captions; they are not trained. Empty means that a
    fraction of the training images is used."""

    caption_list: Annotated[
        str,
        Ui(
            "Validation caption list",
            editor="file",
            level="advanced",
            search="csv jsonl metadata captions",
            only_with={**_WITH, "validation.folder": ("*",)},
        ),
    ] = ""
    """A .csv, .jsonl or .txt file with the captions of the validation folder, like "List of
    captions" for training images; empty where captions come from the same source as for these."""

    split: Annotated[
        Fraction,
        Ui(
            "Validation split",
            unit="of all images",
            search="split validation share held out",
            only_with=_WITH,
        ),
    ] = 0.1
    """About this fraction of the images is used for validation, at least one image and at most
    half. Each one's name, its folder's name and the seed decide, whatever other images there are.
    Not used with a validation folder. 0.1 is usual; more measures more exactly and trains fewer."""

    keep_similar: Annotated[
        bool,
        Ui(
            "Keep similar images together",
            level="advanced",
            search="near-duplicates leak split pictures",
            only_with=_WITH,
        ),
    ] = True
    """Keeps images that look nearly the same on one side of the split. A validation image whose
    near-duplicate is trained says nothing about new images."""

    max_images: Annotated[
        int,
        Field(ge=0, le=100_000),
        Ui(
            "Max validation images",
            unit="images",
            level="advanced",
            zero="all",
            only_with=_WITH,
            search="most",
        ),
    ] = 50
    """Measures at most this many images, always the same ones. A split may keep more from training.
    0 means all. More is more exact and slower. 50 is usual."""

    seed: Annotated[
        int, Field(ge=0, lt=2**63), Ui("Validation seed", level="advanced", only_with=_WITH)
    ] = 0
    """Selects the validation images and their noise; separate from the run's seed, so that runs
    with different seeds can be compared."""

    split_by: Annotated[
        Literal["images", "folders", "names"],
        Ui(
            "Split by",
            choices={
                "images": "each image by itself",
                "folders": "an exact number",
                "names": "an exact number, by names only",
            },
            level="hidden",
            only_with=_WITH,
            search="turns",
        ),
    ] = "images"
    """How the split is decided: of each image by itself, from its folder and name, so that images
    that are added or removed move no other. "folders" and "names" take an exact number, as runs
    from before versions 9 and 5 of this file, which go on as they began."""

    every: Annotated[
        Steps,
        InSteps(0, repeats=True),
        Ui(
            "Validate every",
            unit="steps",
            zero="never in between",
            lead="When to validate.",
            only_with=_WITH,
        ),
    ] = 100
    """Validates every so many steps, or every "1 epoch" or "500 images"; 0 means only at the start
    and at the end. 100 to 250 steps are usual; more often shows more and takes more time."""

    at_start: Annotated[bool, Ui("Validate at the start", level="advanced", only_with=_WITH)] = True
    """Validates before the first step, for comparison."""

    at_end: Annotated[bool, Ui("Validate at the end", level="advanced", only_with=_WITH)] = True
    """Validates after the last step."""

    timesteps: Annotated[
        int,
        Field(ge=1, le=100),
        Ui(
            "Timesteps per image",
            level="advanced",
            search="timesteps strata noise levels",
            lead="How exactly the loss is measured: more takes longer and narrows the band.",
            only_with=_WITH,
        ),
    ] = 4
    """At how many timesteps each image is measured, spread evenly from no noise to full noise. More
    is more exact and slower. 4 is usual."""

    noises: Annotated[
        int,
        Field(ge=1, le=100),
        Ui("Noises per timestep", level="advanced", only_with=_WITH, search="each level"),
    ] = 1
    """How many noise samples each image is measured with at each timestep. More is more exact and
    slower. 1 is usual."""

    without_ema: Annotated[
        bool,
        Ui(
            "Also without EMA",
            level="advanced",
            search="ema average",
            only_with={**_WITH, "ema.use": ("*",)},
        ),
    ] = False
    """With EMA, measures twice: the EMA weights and the weights of the last step."""

    keep_best: Annotated[
        bool,
        Ui(
            "Keep best checkpoint",
            search="best checkpoint",
            lead="What to do with the result.",
            only_with=_WITH,
        ),
    ] = True
    """Keeps the checkpoint with the lowest validation loss, and writes a file of it at the end if
    training went on past it."""

    patience: Annotated[
        int,
        Field(ge=0, le=10_000),
        Ui(
            "Early stopping after",
            unit="validations",
            zero="never",
            search="patience early stopping overfitting stop",
            only_with=_WITH,
        ),
    ] = 0
    """Ends training when this many validations in a row are no better than the best before them; 0
    means never. Such a run continues when it is resumed with more patience. 0 is usual, or 3 to 5;
    fewer stops sooner."""
