"""What is drawn to be scored: prompts, and how the pictures come into being."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.run.sampling import Side

_GRADIENT = {
    "objective.algorithm.kind": ("alignprop", "draft", "draft_lv", "refl", "drtune"),
}
_LIST = {"objective.prompts.source": ("list",)}


class Prompts(Section):
    """What the pictures of training show."""

    source: Annotated[
        Literal["list", "file", "captions"],
        Ui(
            "Prompts from",
            choices={
                "list": "the list below",
                "file": "a text file",
                "captions": "the pictures' captions",
            },
        ),
    ] = "list"
    """Where the prompts come from."""

    text: Annotated[
        str,
        Field(max_length=200_000),
        Ui("Prompts", editor="text", search="animals", only_with=_LIST),
    ] = ""
    """The prompts, one a line."""

    file: Annotated[
        str, Ui("Prompt file", editor="file", only_with={"objective.prompts.source": ("file",)})
    ] = ""
    """A text file with a prompt a line."""


class Rollout(Section):
    """How the pictures that are scored are drawn: by DDIM, step by step."""

    steps: Annotated[
        int, Field(ge=1, le=200), Ui("Drawing steps", unit="steps", search="ddim sampling")
    ] = 20
    """In so many steps each picture is drawn. The papers take 50; 20 take less than half the
    time."""

    guidance: Annotated[
        float, Field(ge=0, le=50), Ui("Guidance", search="cfg scale classifier-free")
    ] = 5.0
    """How strongly pictures follow their prompt; 1 means without guidance, in half the time."""

    width: Annotated[Side, Ui("Width", unit="px")] = 512
    """The width of the pictures, a multiple of 8."""

    height: Annotated[Side, Ui("Height", unit="px")] = 512
    """The height of the pictures, a multiple of 8."""

    eta: Annotated[
        float, Field(ge=0, le=1), Ui("Eta", level="advanced", search="ddim ddpm noise")
    ] = 1.0
    """How much new noise each step brings: 0 none (DDIM), 1 as much as DDPM."""

    guidance_gradient: Annotated[
        bool,
        Ui(
            "Gradient through guidance",
            level="advanced",
            search="unconditional cfg",
            only_with=_GRADIENT,
        ),
    ] = True
    """Whether the gradient also flows through the half of guidance that knows no prompt. Off saves
    a quarter of a trained step's time and is another estimate of the gradient."""

    checkpoint: Annotated[
        bool,
        Ui(
            "Checkpoint each step",
            level="advanced",
            search="gradient checkpointing memory",
            only_with=_GRADIENT,
        ),
    ] = True
    """Keeps only the inputs of each step and computes it again for the gradient: then memory hardly
    depends on how many steps the gradient goes through."""

    merge: Annotated[bool, Ui("Merge while drawing", level="advanced", search="lora speed")] = True
    """Adds adapters to the weights for the steps without a gradient, which makes these faster;
    takes memory for a second copy of the layers that have adapters."""


class Keep(Section):
    """What holds the model to what it was."""

    anchor: Annotated[
        float,
        Field(ge=0, le=10_000),
        Ui("Anchor to the base", search="kl divergence regularize", only_with=_GRADIENT),
    ] = 0.0
    """How much it costs to predict other noise than the model before training, in the reward's
    units for a mean squared difference of 1; 0 means nothing. Takes another UNet call a picture."""

    denoising_share: Annotated[
        float,
        Field(ge=0, le=0.9),
        Ui("Ordinary steps", unit="of the steps", search="pretraining denoising prior"),
    ] = 0.0
    """This share of the steps is ordinary training on your pictures."""
