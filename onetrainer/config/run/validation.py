"""Held-out pictures: how well the model does on what it does not learn from."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Share = Annotated[float, Field(ge=0, le=0.5)]
_WITH = {"validation.use": ("*",)}


class Validation(Section):
    """Measures the loss on pictures that are not learned, always on the same noise."""

    use: Annotated[
        bool, Ui("Validate", search="validation held-out overfitting overfit early stop loss")
    ] = False
    """Measures, again and again, the loss on pictures that are held out of training: it falls while
    the model still learns, and rises when it begins to memorize (overfitting)."""

    folder: Annotated[
        str,
        Ui(
            "Held-out pictures",
            editor="folder",
            search="validation set",
            lead="Which pictures are held out: a folder of them, or a share of all pictures.",
            only_with=_WITH,
        ),
    ] = ""
    """A folder of held-out pictures, with captions, which are not learned; empty means that a share
    of the pictures is held out."""

    caption_list: Annotated[
        str,
        Ui(
            "List of their captions",
            editor="file",
            level="advanced",
            search="csv jsonl metadata",
            only_with={**_WITH, "validation.folder": ("*",)},
        ),
    ] = ""
    """A .csv, .jsonl or .txt file with the captions of the held-out pictures of the folder, as
    "List of captions" is for those to learn; empty where they have captions as these do."""

    split: Annotated[
        Share,
        Ui("Share held out", unit="of all pictures", search="split validation", only_with=_WITH),
    ] = 0.1
    """The share of the pictures that is held out, up to a half; at least one picture. Which ones
    depends on the names of them and their folders and the seed alone. Not used where there is a
    folder of them."""

    keep_similar: Annotated[
        bool,
        Ui(
            "Keep similar pictures together",
            level="advanced",
            search="near-duplicates leak split",
            only_with=_WITH,
        ),
    ] = True
    """Holds out pictures that look nearly the same together, or learns them together. A held-out
    picture whose twin is learned says nothing about pictures that were never seen."""

    max_images: Annotated[
        int,
        Field(ge=0, le=100_000),
        Ui("At most", unit="pictures", level="advanced", zero="all", only_with=_WITH),
    ] = 50
    """So many pictures are measured at most, always the same ones; a share holds no more out than
    that. 0 means all."""

    seed: Annotated[
        int, Field(ge=0, lt=2**63), Ui("Validation seed", level="advanced", only_with=_WITH)
    ] = 0
    """What is held out, and with which noise it is measured, comes from this number, so that runs
    with different seeds can be compared."""

    split_by: Annotated[
        Literal["folders", "names"],
        Ui(
            "Turns by",
            choices={"folders": "folders and names", "names": "names alone"},
            level="hidden",
            only_with=_WITH,
        ),
    ] = "folders"
    """What the order follows from in which pictures are held out: their folders and names; or their
    "names" alone, as in files before version 5, so that what these hold out stays as it was."""

    every: Annotated[
        int,
        Field(ge=0, le=10_000_000),
        Ui(
            "Validate every",
            unit="steps",
            zero="never in between",
            lead="When it is measured.",
            only_with=_WITH,
        ),
    ] = 100
    """Validates after every so many steps or epochs; 0 means only at the start and at the end."""

    unit: Annotated[
        Literal["steps", "epochs"], Ui("Counted in", level="advanced", only_with=_WITH)
    ] = "steps"
    """What "Validate every" counts: steps, or passes over the pictures."""

    at_start: Annotated[bool, Ui("Validate at the start", level="advanced", only_with=_WITH)] = True
    """Validates before the first step, so that there is something to compare with."""

    at_end: Annotated[bool, Ui("Validate at the end", level="advanced", only_with=_WITH)] = True
    """Validates after the last step."""

    timesteps: Annotated[
        int,
        Field(ge=1, le=100),
        Ui(
            "Noise levels",
            level="advanced",
            search="timesteps strata",
            lead="How exactly it is measured: more takes longer, and narrows the band.",
            only_with=_WITH,
        ),
    ] = 4
    """At how many noise levels each picture is measured, spread evenly from none to full noise."""

    noises: Annotated[
        int, Field(ge=1, le=100), Ui("Noises at each level", level="advanced", only_with=_WITH)
    ] = 1
    """With how many different noises each picture is measured at each level."""

    without_ema: Annotated[
        bool,
        Ui(
            "With and without average",
            level="advanced",
            search="ema",
            only_with={**_WITH, "ema.use": ("*",)},
        ),
    ] = False
    """Measures twice where weights are averaged: the average, and the weights of the last step."""

    keep_best: Annotated[
        bool,
        Ui(
            "Keep the best",
            search="best checkpoint",
            lead="What comes of it.",
            only_with=_WITH,
        ),
    ] = True
    """Keeps the checkpoint with the lowest held-out loss, and writes a file of it at the end if
    training went on past it."""

    patience: Annotated[
        int,
        Field(ge=0, le=10_000),
        Ui(
            "Stop early after",
            unit="validations",
            zero="never",
            search="patience early stopping overfitting",
            only_with=_WITH,
        ),
    ] = 0
    """Ends training when so many validations in a row were no better than the best before them; 0
    means never. A run that ended so goes on when it is resumed with more patience."""
