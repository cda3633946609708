"""Settings of the images that are generated and scored: their prompts and sampling."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.run.sampling import Side

_GRADIENT = {
    "objective.algorithm.kind": ("alignprop", "draft", "draft_lv", "refl", "drtune"),
}
_LIST = {"objective.prompts.source": ("list",)}


class Prompts(Section):
    """The prompts of the training images."""

    source: Annotated[
        Literal["list", "file", "captions"],
        Ui(
            "Prompts from",
            choices={
                "list": "list below",
                "file": "text file",
                "captions": "image captions",
            },
        ),
    ] = "list"
    """Where the prompts come from."""

    text: Annotated[
        str,
        Field(max_length=200_000),
        Ui("Prompts", editor="text", search="animals", only_with=_LIST),
    ] = ""
    """The prompts, one per line."""

    file: Annotated[
        str, Ui("Prompt file", editor="file", only_with={"objective.prompts.source": ("file",)})
    ] = ""
    """A text file with one prompt per line."""


class Rollout(Section):
    """How the scored images are generated: with DDIM, step by step."""

    steps: Annotated[
        int, Field(ge=1, le=200), Ui("Sampling steps", unit="steps", search="ddim sampling drawing")
    ] = 20
    """In how many steps each image is generated. 20 is usual; 50 is finer and takes more than twice
    the time."""

    guidance: Annotated[
        float, Field(ge=0, le=50), Ui("Guidance", search="cfg scale classifier-free")
    ] = 5.0
    """How strongly images follow their prompt (CFG scale); 1 is without guidance, in half the time.
    5 is usual; more follows more closely, with harder contrast."""

    width: Annotated[Side, Ui("Width", unit="px")] = 512
    """The width of the images, a multiple of 8. The model's own size is usual, 512 or 1024; more
    shows more and takes more time and memory."""

    height: Annotated[Side, Ui("Height", unit="px")] = 512
    """The height of the images, a multiple of 8. The model's own size is usual, 512 or 1024; more
    shows more and takes more time and memory."""

    eta: Annotated[
        float, Field(ge=0, le=1), Ui("Eta", level="advanced", search="ddim ddpm noise")
    ] = 1.0
    """How much new noise each step adds: 0 is none (DDIM), 1 as much as DDPM. 1 is usual; less
    makes images of one noise more alike."""

    guidance_gradient: Annotated[
        bool,
        Ui(
            "Gradient through guidance",
            level="advanced",
            search="unconditional cfg",
            only_with=_GRADIENT,
        ),
    ] = True
    """Whether the gradient also flows through the unconditional half of guidance. Off saves a
    quarter of a trained step's time and estimates the gradient differently."""

    checkpoint: Annotated[
        bool,
        Ui(
            "Checkpoint sampling steps",
            level="advanced",
            search="gradient checkpointing memory each step",
            only_with=_GRADIENT,
        ),
    ] = True
    """Saves only the inputs of each sampling step and computes it again for the gradient: memory
    then hardly depends on the number of steps with a gradient."""

    merge: Annotated[
        bool, Ui("Merge adapters", level="advanced", search="lora speed while drawing")
    ] = True
    """Merges adapters into the weights for steps without a gradient, which makes these faster;
    needs memory for a copy of the layers with adapters."""


class Keep(Section):
    """Regularization that keeps the model close to the base model."""

    anchor: Annotated[
        float,
        Field(ge=0, le=10_000),
        Ui("Anchor to the base model", search="kl divergence regularize", only_with=_GRADIENT),
    ] = 0.0
    """The penalty for predicting other noise than the base model, in the reward's units for a mean
    squared difference of 1. 0 is off and usual; more stays closer to the base model and gains less
    reward. Needs one more UNet call per image."""

    denoising_fraction: Annotated[
        float,
        Field(ge=0, le=0.9),
        Ui("Denoising steps", unit="of the steps", search="pretraining denoising prior ordinary"),
    ] = 0.0
    """The fraction of steps that are ordinary training on your images. 0 is off, 0.1 to 0.3 is
    usual; more keeps your images' look and gains less reward."""
