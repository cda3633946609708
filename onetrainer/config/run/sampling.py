"""Settings of sample images."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from onetrainer.config.base.amount import InSteps, Steps
from onetrainer.config.base.prompt_weights import PROMPT_WEIGHTS, PromptWeights
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.methods.adapters import WITH_ADAPTERS
from onetrainer.families.registry import families_with

Side = Annotated[int, Field(ge=64, le=4096, multiple_of=8)]
SamplerName = Literal[
    "ddim",
    "euler",
    "euler_a",
    "dpmpp_2m",
    "dpmpp_2m_karras",
    "dpmpp_2m_sde",
    "dpmpp_2m_sde_karras",
    "unipc",
    "lcm",
]
SAMPLER_LABELS: Mapping[str, str] = {
    "ddim": "DDIM",
    "euler": "Euler",
    "euler_a": "Euler a",
    "dpmpp_2m": "DPM++ 2M",
    "dpmpp_2m_karras": "DPM++ 2M Karras",
    "dpmpp_2m_sde": "DPM++ 2M SDE",
    "dpmpp_2m_sde_karras": "DPM++ 2M SDE Karras",
    "unipc": "UniPC",
    "lcm": "LCM",
}
_SEES_MASKED = {"model.family": families_with(lambda spec: spec.sees_masked_image)}
MAX_STRENGTH = 100
MAX_STRENGTHS = 10


def parse_strengths(text: str) -> tuple[float, ...]:
    """Return the strengths of a list such as "0.6, 0.8, 1", each once."""
    return tuple(dict.fromkeys(float(each) for each in text.replace(",", " ").split()))


def _require_strengths(text: str) -> str:
    try:
        strengths = parse_strengths(text)
    except ValueError:
        strengths = (math.nan,)
    in_range = all(-MAX_STRENGTH <= each <= MAX_STRENGTH for each in strengths)  # NaN is not
    if len(strengths) > MAX_STRENGTHS or not in_range:
        raise ValueError(
            f"at most {MAX_STRENGTHS} numbers from {-MAX_STRENGTH} to {MAX_STRENGTH}, such as"
            ' "0.6, 0.8, 1"'
        )
    return text


Strengths = Annotated[str, Field(max_length=200), AfterValidator(_require_strengths)]


PAIR = "Expected an image and a mask, or neither"


class Prompt(Section):
    """One sample image, generated again and again from the same noise."""

    prompt: Annotated[str, Field(max_length=4000), Ui("Prompt", editor="text")] = ""
    """What the image should show."""

    negative: Annotated[str, Field(max_length=4000), Ui("Negative prompt", level="advanced")] = ""
    """What the image should not show."""

    seed: Annotated[int, Field(ge=0, lt=2**63), Ui("Seed")] = 42
    """The seed of its starting noise: same seed, same noise."""

    width: Annotated[Side, Ui("Width", unit="px", like="data.resolution")] = 512
    """The width of the sample, a multiple of 8. The model's own size is usual, 512 or 1024; more
    shows more and takes more time and memory."""

    height: Annotated[Side, Ui("Height", unit="px", like="data.resolution")] = 512
    """The height of the sample, a multiple of 8. The model's own size is usual, 512 or 1024; more
    shows more and takes more time and memory."""

    image: Annotated[
        str,
        Ui(
            "Image",
            editor="file",
            level="advanced",
            search="inpainting base_image_path",
            only_with=_SEES_MASKED,
        ),
    ] = ""
    """The image that an inpainting model paints in, scaled and cut to the size of the sample. Empty
    for none: the model then paints everything."""

    mask: Annotated[
        str,
        Ui(
            "Mask",
            editor="file",
            level="advanced",
            search="inpainting mask_image_path",
            only_with=_SEES_MASKED,
        ),
    ] = ""
    """An image that is white where the model paints, and black where the image stays."""

    use: Annotated[bool, Ui("Use", level="advanced", search="enabled on off")] = True
    """Off leaves this prompt out."""

    steps: Annotated[int | None, Field(ge=1, le=1000), Ui("Sampling steps", level="advanced")] = (
        None
    )
    """How many denoising steps this sample takes; empty for as many as the others. 20 to 30 is
    usual; more is finer and slower."""

    guidance: Annotated[
        float | None, Field(ge=0, le=50), Ui("Guidance", level="advanced", search="cfg scale")
    ] = None
    """How strongly this sample follows its prompt; empty for the same as the others. 5 to 8 is
    usual; more follows more closely, with harder contrast."""

    sampler: Annotated[
        Literal["run", SamplerName],
        Ui(
            "Sampler",
            level="advanced",
            search="scheduler",
            choices={"run": "as the others"} | dict(SAMPLER_LABELS),
        ),
    ] = "run"
    """The method that turns noise into this image."""

    strengths: Annotated[
        Strengths,
        Ui(
            "Adapter strengths",
            level="advanced",
            search="lora strength multiplier weight scale",
            only_with=WITH_ADAPTERS,
        ),
    ] = ""
    """A sample for each of these strengths, such as "0.6, 0.8, 1"; empty for those of all."""

    @property
    def missing_of_pair(self) -> str:
        """Which of image and mask is missing where only the other is given; "" otherwise."""
        if bool(self.image) == bool(self.mask):
            return ""
        return "mask" if self.image else "image"


class Sampling(Section):
    """Which samples are generated, and when."""

    prompts: Annotated[tuple[Prompt, ...], Field(max_length=64), Ui("Sample prompts")] = ()
    """The images that are generated each time; none means no samples."""

    file: Annotated[
        str,
        Ui(
            "Prompt file",
            editor="file",
            level="advanced",
            search="sample_prompts prompts txt json list",
        ),
    ] = ""
    """A file of more sample prompts: a .txt file with one per line, perhaps with kohya's options
    (--n --w --h --d --s --l --ss), or a .json list of prompts with their settings. Their size is
    the training resolution unless they have one."""

    every: Annotated[Steps, InSteps(0, repeats=True), Ui("Sample every", unit="steps")] = 100
    """Generates samples every so many steps, or every "1 epoch" or "500 images"; 0 means only at
    the start and at the end. 100 to 250 steps are usual; more often shows more and takes more
    time."""

    at_start: Annotated[bool, Ui("Sample at the start", level="advanced")] = True
    """Generates samples before the first step, for comparison."""

    at_end: Annotated[bool, Ui("Sample at the end", level="advanced")] = True
    """Generates samples after the last step."""

    prompt_weights: Annotated[
        PromptWeights,
        Ui(
            "Prompt weights",
            level="advanced",
            search="emphasis attention parentheses brackets",
            choices=PROMPT_WEIGHTS,
        ),
    ] = "off"
    """Whether (word:1.3) in a prompt gives a word more weight or less; (word) is 1.1. Read as the
    program that you will use the model in. Off reads parentheses as text."""

    steps: Annotated[int, Field(ge=1, le=1000), Ui("Sampling steps", level="advanced")] = 20
    """How many denoising steps a sample takes. 20 to 30 is usual; more is finer and slower."""

    guidance: Annotated[
        float, Field(ge=0, le=50), Ui("Guidance", level="advanced", search="cfg scale")
    ] = 7.0
    """How strongly samples follow their prompt (CFG scale). 5 to 8 is usual; 1 is without guidance.
    More follows more closely, with harder contrast."""

    guidance_rescale: Annotated[
        float, Field(ge=0, le=1), Ui("Guidance rescale", level="advanced", search="cfg rescale")
    ] = 0.0
    """How far guided predictions are rescaled to the contrast of unguided ones; 0 is off. Models
    with zero terminal SNR need about 0.7. 0 is usual for other models; more lowers the contrast."""

    strengths: Annotated[
        Strengths,
        Ui(
            "Adapter strengths",
            level="advanced",
            search="lora strength multiplier weight scale side by side",
            only_with=WITH_ADAPTERS,
        ),
    ] = "1"
    """Repeats each sample with the adapter at each of these strengths, such as "0.6, 0.8, 1", to
    compare them. 1 is as trained, 0 is the base model."""

    sampler: Annotated[
        SamplerName,
        Ui(
            "Sampler",
            level="advanced",
            search="scheduler euler dpm karras",
            choices=SAMPLER_LABELS,
        ),
    ] = "ddim"
    """The method that turns noise into an image. "lcm" is only for LCM models."""

    @property
    def has_prompts(self) -> bool:
        """Whether any sample is generated each time."""
        return bool(self.file) or any(prompt.use for prompt in self.prompts)
