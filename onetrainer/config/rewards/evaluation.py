"""Whether the reward still means anything: what is watched while it is trained."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

_GUARDED = {"objective.evaluation.guard": ("warn", "stop")}


class Evaluation(Section):
    """Draws held-out prompts again and again, and looks at what is not trained."""

    every: Annotated[
        int,
        Field(ge=1, le=1_000_000),
        Ui("Look every", unit="steps", search="evaluate evaluation held-out"),
    ] = 5
    """Draws the held-out prompts after every so many steps, before the first and after the last."""

    prompts: Annotated[
        str,
        Field(max_length=200_000),
        Ui("Held-out prompts", editor="text", search="test prompts"),
    ] = ""
    """Prompts that are not trained, one a line; empty means that a share of the prompts is held
    out."""

    split: Annotated[
        float, Field(ge=0, le=0.5), Ui("Share held out", unit="of the prompts", level="advanced")
    ] = 0.2
    """The share of the prompts that is held out where none are written above, at least one. Of a
    single prompt none is, and it is watched itself."""

    max_prompts: Annotated[int, Field(ge=1, le=1000), Ui("At most", unit="prompts")] = 6
    """So many held-out prompts are drawn at most."""

    seeds: Annotated[int, Field(ge=2, le=64), Ui("Pictures a prompt")] = 3
    """So many pictures of each prompt, always from the same noise. How different they are from each
    other is the diversity that is watched."""

    seed: Annotated[int, Field(ge=0, lt=2**63), Ui("First seed", level="advanced")] = 0
    """The number that the first picture's noise comes from; the others follow."""

    guard: Annotated[
        Literal["off", "warn", "stop"],
        Ui(
            "Guard",
            search="reward hacking overoptimization collapse",
            choices={"off": "off", "warn": "warns", "stop": "stops and keeps the best"},
        ),
    ] = "stop"
    """What happens when the trained reward rises while watched ones, or diversity, fall: then the
    model has found a way to please the reward that pleases nobody else."""

    patience: Annotated[
        int,
        Field(ge=1, le=100),
        Ui("Guard's patience", unit="looks", level="advanced", only_with=_GUARDED),
    ] = 2
    """So many looks in a row have to show it."""

    least_diversity: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Least diversity",
            unit="of the base's",
            level="advanced",
            search="collapse variety",
            only_with=_GUARDED,
        ),
    ] = 0.6
    """Below this share of the base model's diversity, of pictures of one prompt or of different
    prompts, the model counts as collapsing."""

    distance: Annotated[bool, Ui("Distance to the base", level="advanced", search="kl drift")] = (
        True
    )
    """Also measures how far the model's noise predictions are from those before training. A model
    whose own weights train keeps a copy of them for it, in main memory."""

    keep_best: Annotated[bool, Ui("Keep the best", search="best checkpoint")] = True
    """Keeps the checkpoint with the highest trained reward from before the guard saw anything
    wrong, and writes a file of it at the end."""
