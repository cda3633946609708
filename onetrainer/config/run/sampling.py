"""Settings of sample images."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.prompt_weights import PROMPT_WEIGHTS, PromptWeights
from onetrainer.config.base.section import Section, Ui

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


class Prompt(Section):
    """One sample image, generated again and again from the same noise."""

    prompt: Annotated[str, Field(max_length=4000), Ui("Prompt", editor="text")] = ""
    """What the image should show."""

    negative: Annotated[str, Field(max_length=4000), Ui("Negative prompt", level="advanced")] = ""
    """What the image should not show."""

    seed: Annotated[int, Field(ge=0, lt=2**63), Ui("Seed")] = 42
    """The seed of its starting noise: same seed, same noise."""

    width: Annotated[Side, Ui("Width", unit="px", like="data.resolution")] = 512
    """The width of the sample, a multiple of 8."""

    height: Annotated[Side, Ui("Height", unit="px", like="data.resolution")] = 512
    """The height of the sample, a multiple of 8."""


class Sampling(Section):
    """Which samples are generated, and when."""

    prompts: Annotated[tuple[Prompt, ...], Field(max_length=64), Ui("Sample prompts")] = ()
    """The images that are generated each time; none means no samples."""

    every: Annotated[int, Field(ge=0, le=10_000_000), Ui("Sample every", unit="steps")] = 100
    """Generates samples every N steps; 0 means only at the start and at the end."""

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
    """How strongly samples follow their prompt (CFG scale). 5 to 8 is usual; 1 is without
    guidance."""

    guidance_rescale: Annotated[
        float, Field(ge=0, le=1), Ui("Guidance rescale", level="advanced", search="cfg rescale")
    ] = 0.0
    """How far guided predictions are rescaled to the contrast of unguided ones; 0 is off. Models
    with zero terminal SNR need about 0.7."""

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
