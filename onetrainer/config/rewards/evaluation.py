"""Settings of reward evaluation: what is measured while the reward is trained."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.amount import InSteps, Steps
from onetrainer.config.base.section import Section, Ui

_GUARDED = {"objective.evaluation.guard": ("warn", "stop")}


class Evaluation(Section):
    """Regular evaluation on validation prompts, with rewards that are not trained."""

    every: Annotated[
        Steps,
        InSteps(1, 1_000_000, repeats=True),
        Ui("Evaluate every", unit="steps", search="evaluate evaluation held-out look"),
    ] = 5
    """Generates the validation prompts every so many steps, or every "1 epoch" of the prompts,
    before the first and after the last. More often is safer and takes more time. 5 steps are
    usual."""

    prompts: Annotated[
        str,
        Field(max_length=200_000),
        Ui("Validation prompts", editor="text", search="test prompts held-out"),
    ] = ""
    """Prompts that are not trained, one per line; empty means that a fraction of the prompts is
    used."""

    split: Annotated[
        float,
        Field(ge=0, le=0.5),
        Ui("Validation split", unit="of the prompts", level="advanced", search="share held out"),
    ] = 0.2
    """The fraction of the prompts used for validation if none are written above, at least one. A
    single prompt is both trained and evaluated. 0.2 is usual; more measures more exactly and trains
    fewer."""

    max_prompts: Annotated[
        int, Field(ge=1, le=1000), Ui("Max validation prompts", unit="prompts", search="most")
    ] = 6
    """Generates at most this many validation prompts. 6 are usual; more measure more exactly and
    take more time."""

    seeds: Annotated[int, Field(ge=2, le=64), Ui("Images per prompt", search="pictures")] = 3
    """How many images of each prompt are generated, always from the same noise. Their difference
    from each other is measured as diversity. 3 are usual; more measure more exactly and take more
    time."""

    seed: Annotated[int, Field(ge=0, lt=2**63), Ui("First seed", level="advanced")] = 0
    """The seed of the first image's noise; the others follow."""

    guard: Annotated[
        Literal["off", "warn", "stop"],
        Ui(
            "Guard",
            search="reward hacking overoptimization collapse",
            choices={"off": "off", "warn": "warn", "stop": "stop and keep the best"},
        ),
    ] = "stop"
    """What happens when the trained reward rises while other rewards or diversity fall: then the
    model exploits the reward (reward hacking)."""

    patience: Annotated[
        int,
        Field(ge=1, le=100),
        Ui(
            "Guard patience",
            unit="evaluations",
            level="advanced",
            only_with=_GUARDED,
            search="guard's",
        ),
    ] = 2
    """The guard acts after this many evaluations in a row show it. 2 is usual; more is surer and
    later."""

    min_diversity: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Min diversity",
            unit="of the base model's",
            level="advanced",
            search="collapse variety least",
            only_with=_GUARDED,
        ),
    ] = 0.6
    """Below this fraction of the base model's diversity, of images of one prompt or of different
    prompts, the model counts as collapsing. 0.6 is usual; more acts sooner."""

    distance: Annotated[
        bool, Ui("Distance to the base model", level="advanced", search="kl drift")
    ] = True
    """Also measures how far the model's noise predictions are from those of the base model.
    Fine-tuning keeps a copy of the weights in RAM for it."""

    keep_best: Annotated[bool, Ui("Keep best checkpoint", search="best checkpoint")] = True
    """Keeps the checkpoint with the highest trained reward from before the guard acted, and writes
    a file of it at the end."""
