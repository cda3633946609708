"""Through which steps of the sampling a reward's gradient flows: the published ways to do it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Share = Annotated[float, Field(ge=0, le=1)]
_RANDOM = {"objective.algorithm.through": ("random",)}
_FIXED = {"objective.algorithm.through": ("fixed",)}


class AlignPropSteps(Section):
    """The gradient goes through the last steps, so many of them as is drawn for each picture.

    Source: Prabhudesai et al. 2023, arXiv:2310.03739.
    """

    title: ClassVar[str] = "AlignProp"
    kind: Literal["alignprop"] = "alignprop"

    through: Annotated[
        Literal["random", "fixed", "all"],
        Ui(
            "Gradient through",
            search="truncation backprop K steps",
            choices={
                "random": "a random share of the last steps",
                "fixed": "a fixed number of the last steps",
                "all": "all steps",
            },
        ),
    ] = "random"
    """Through how many of the last steps the reward's gradient flows. "random" draws it anew for
    each picture and learns both composition and detail; "all" soon collapses to one picture."""

    last_steps: Annotated[
        int, Field(ge=1, le=1000), Ui("Last steps", unit="steps", only_with=_FIXED)
    ] = 1
    """Through so many of the last steps. Few change details alone."""

    min_fraction: Annotated[
        Share, Ui("Least share", unit="of the steps", level="advanced", only_with=_RANDOM)
    ] = 0.0
    """The least share of the steps that is drawn; always at least one step."""

    max_fraction: Annotated[
        Share, Ui("Greatest share", unit="of the steps", level="advanced", only_with=_RANDOM)
    ] = 1.0
    """The greatest share of the steps that is drawn. Less is quicker, and changes composition
    less."""


class Draft(Section):
    """The gradient goes through a few last steps, always as many.

    Source: Clark et al. 2023, arXiv:2309.17400 (DRaFT-K).
    """

    title: ClassVar[str] = "DRaFT-K"
    kind: Literal["draft"] = "draft"

    last_steps: Annotated[
        int, Field(ge=1, le=1000), Ui("Last steps", unit="steps", search="K truncation")
    ] = 1
    """Through so many of the last steps the reward's gradient flows; 1 gains most in a given
    time."""


class DraftLv(Section):
    """The gradient goes through the last step, of several noises of the same finished picture.

    Source: Clark et al. 2023, arXiv:2309.17400, section 4.2 (DRaFT-LV).
    """

    title: ClassVar[str] = "DRaFT-LV"
    kind: Literal["draft_lv"] = "draft_lv"

    gradients_per_image: Annotated[int, Field(ge=2, le=16), Ui("Gradients a picture")] = 2
    """From so many last steps of each picture a gradient is taken: the first is that of its
    drawing, the others begin with the finished picture under new noise."""


class ReFL(Section):
    """The picture is foretold from one late step, and the gradient goes through this step alone.

    Source: Xu et al. 2023, arXiv:2304.05977, section 3.
    """

    title: ClassVar[str] = "ReFL"
    kind: Literal["refl"] = "refl"

    earliest: Annotated[Share, Ui("Not before", unit="of the steps")] = 0.75
    """The step is drawn from behind this share of the steps: before, there is little to see."""

    latest: Annotated[Share, Ui("Not after", unit="of the steps", level="advanced")] = 1.0
    """The step is drawn from before this share of the steps."""


class DRTune(Section):
    """The gradient goes through some steps, early ones too, but never through a step's input.

    Source: Wu et al. 2024, arXiv:2405.00760.
    """

    title: ClassVar[str] = "DRTune"
    kind: Literal["drtune"] = "drtune"

    trained_steps: Annotated[int, Field(ge=1, le=1000), Ui("Trained steps", unit="steps")] = 5
    """So many steps, evenly apart, get a gradient; where they begin is drawn for each picture."""

    early_stop: Annotated[
        Annotated[float, Field(ge=0, le=0.9)],
        Ui("Stops early by up to", unit="of the steps", level="advanced"),
    ] = 0.4
    """Drawing ends early, by a share of the steps that is drawn up to this one, and the picture is
    foretold from there; 0 means never."""


class BestOfN(Section):
    """Several pictures of a prompt are drawn, and the best are learnt as if they were yours.

    For scores without a gradient. Sources: Dong et al. 2023, arXiv:2304.06767 (RAFT); Karthik et
    al. 2023, arXiv:2305.13308 (best-of-n selection).
    """

    title: ClassVar[str] = "best of n"
    kind: Literal["best_of_n"] = "best_of_n"

    candidates_per_prompt: Annotated[int, Field(ge=2, le=256), Ui("Candidates a prompt")] = 8
    """So many pictures are drawn of each prompt."""

    kept_per_prompt: Annotated[int, Field(ge=1, le=64), Ui("Kept a prompt", level="advanced")] = 1
    """So many of them, the best, are learnt."""

    prompts_per_round: Annotated[int, Field(ge=1, le=1000), Ui("Prompts a round")] = 8
    """Of so many prompts a round's pictures are drawn."""

    steps_per_round: Annotated[int, Field(ge=1, le=10_000), Ui("Steps a round", unit="steps")] = 10
    """After so many training steps new pictures are drawn with what the model has learnt."""


Algorithm = Annotated[
    AlignPropSteps | Draft | DraftLv | ReFL | DRTune | BestOfN, Field(discriminator="kind")
]
