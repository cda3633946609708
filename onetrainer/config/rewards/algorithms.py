"""Algorithms of reward training: through which sampling steps the gradient flows."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Fraction = Annotated[float, Field(ge=0, le=1)]
_RANDOM = {"objective.algorithm.through": ("random",)}
_FIXED = {"objective.algorithm.through": ("fixed",)}


class AlignPropSteps(Section):
    """The gradient flows through the last steps, a random number of them for each image.

    Source: Prabhudesai et al. 2023, arXiv:2310.03739.
    """

    title: ClassVar[str] = "AlignProp"
    kind: Literal["alignprop"] = "alignprop"

    through: Annotated[
        Literal["random", "fixed", "all"],
        Ui(
            "Backpropagate through",
            search="truncation backprop K steps gradient",
            choices={
                "random": "a random number of last steps",
                "fixed": "a fixed number of last steps",
                "all": "all steps",
            },
        ),
    ] = "random"
    """Through how many of the last steps the reward's gradient flows. "random" picks a new number
    for each image and trains both composition and detail; "all" soon collapses to a single
    image."""

    last_steps: Annotated[
        int, Field(ge=1, le=1000), Ui("Last steps", unit="steps", only_with=_FIXED)
    ] = 1
    """The number of last steps the gradient flows through. Few change only details. 1 to 5 is
    usual; more also changes composition and takes more time and memory."""

    min_fraction: Annotated[
        Fraction,
        Ui(
            "Min fraction",
            unit="of the steps",
            level="advanced",
            only_with=_RANDOM,
            search="least share",
        ),
    ] = 0.0
    """The smallest fraction of the steps; always at least one step. 0 is usual; more always changes
    composition."""

    max_fraction: Annotated[
        Fraction,
        Ui(
            "Max fraction",
            unit="of the steps",
            level="advanced",
            only_with=_RANDOM,
            search="greatest share",
        ),
    ] = 1.0
    """The largest fraction of the steps. Less is faster and changes composition less. 1 is
    usual."""


class Draft(Section):
    """The gradient flows through a fixed number of last steps.

    Source: Clark et al. 2023, arXiv:2309.17400 (DRaFT-K).
    """

    title: ClassVar[str] = "DRaFT-K"
    kind: Literal["draft"] = "draft"

    last_steps: Annotated[
        int, Field(ge=1, le=1000), Ui("Last steps", unit="steps", search="K truncation")
    ] = 1
    """The number of last steps the gradient flows through; 1 gains most in a given time. 1 is
    usual; more also changes composition and takes more time."""


class DraftLv(Section):
    """The gradient flows through the last step, for several noises of the same finished image.

    Source: Clark et al. 2023, arXiv:2309.17400, section 4.2 (DRaFT-LV).
    """

    title: ClassVar[str] = "DRaFT-LV"
    kind: Literal["draft_lv"] = "draft_lv"

    gradients_per_image: Annotated[
        int, Field(ge=2, le=16), Ui("Gradients per image", search="picture")
    ] = 2
    """How many last steps of each image give a gradient: the first is that of its sampling, the
    others start from the finished image with new noise. 2 is usual; more is steadier and takes more
    time."""


class ReFL(Section):
    """The final image is predicted from one late step, and the gradient flows only through this
    step.

    Source: Xu et al. 2023, arXiv:2304.05977, section 3.
    """

    title: ClassVar[str] = "ReFL"
    kind: Literal["refl"] = "refl"

    earliest: Annotated[Fraction, Ui("Earliest step", unit="of the steps", search="not before")] = (
        0.75
    )
    """The step is chosen after this fraction of the steps; earlier, images are still too noisy.
    0.75 is usual; less also trains composition."""

    latest: Annotated[
        Fraction, Ui("Latest step", unit="of the steps", level="advanced", search="not after")
    ] = 1.0
    """The step is chosen before this fraction of the steps. 1 is usual; less also trains
    composition."""


class DRTune(Section):
    """The gradient flows through some steps, early ones too, but never through a step's input.

    Source: Wu et al. 2024, arXiv:2405.00760.
    """

    title: ClassVar[str] = "DRTune"
    kind: Literal["drtune"] = "drtune"

    trained_steps: Annotated[int, Field(ge=1, le=1000), Ui("Trained steps", unit="steps")] = 5
    """How many steps get a gradient, evenly spaced; the first is chosen at random for each image. 5
    is usual; more is steadier and takes more time."""

    early_stop: Annotated[
        Annotated[float, Field(ge=0, le=0.9)],
        Ui("Early stop", unit="of the steps", level="advanced", search="stops"),
    ] = 0.4
    """Sampling stops early by a random fraction of the steps up to this one, and the final image is
    predicted from there; 0 is never. 0.4 is usual; more is faster and scores rougher images."""


class BestOfN(Section):
    """Generates several images per prompt and trains on the best like on your own images.

    For scores without a gradient. Sources: Dong et al. 2023, arXiv:2304.06767 (RAFT); Karthik et
    al. 2023, arXiv:2305.13308 (best-of-n selection).
    """

    title: ClassVar[str] = "best of n"
    kind: Literal["best_of_n"] = "best_of_n"

    candidates_per_prompt: Annotated[int, Field(ge=2, le=256), Ui("Candidates per prompt")] = 8
    """How many images are generated per prompt. More finds better ones and takes more time. 8 is
    usual."""

    kept_per_prompt: Annotated[int, Field(ge=1, le=64), Ui("Kept per prompt", level="advanced")] = 1
    """How many of them, the best, are trained. 1 is usual; more are more varied and less good."""

    prompts_per_round: Annotated[int, Field(ge=1, le=1000), Ui("Prompts per round")] = 8
    """How many prompts are generated in each round. 8 is usual; more are steadier and take more
    time."""

    steps_per_round: Annotated[int, Field(ge=1, le=10_000), Ui("Steps per round", unit="steps")] = (
        10
    )
    """How many training steps are made before new images are generated with the updated model. 10
    is usual; more is faster, but trains on older images."""


Algorithm = Annotated[
    AlignPropSteps | Draft | DraftLv | ReFL | DRTune | BestOfN, Field(discriminator="kind")
]
