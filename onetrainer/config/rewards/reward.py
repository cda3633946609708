"""Settings of a reward: what an image is scored by."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

RewardName = Literal[
    "aesthetic",
    "clip",
    "pickscore",
    "hpsv2",
    "image_reward",
    "reference",
    "color",
    "brightness",
    "contrast",
    "saturation",
    "sharpness",
    "symmetry",
    "compressibility",
    "jpeg_size",
    "function",
]
REWARD_LABELS: Mapping[str, str] = {
    "aesthetic": "LAION aesthetic score",
    "clip": "CLIP: image and text",
    "pickscore": "PickScore",
    "hpsv2": "HPSv2",
    "image_reward": "ImageReward",
    "reference": "similarity to reference images",
    "color": "color",
    "brightness": "brightness",
    "contrast": "contrast",
    "saturation": "saturation",
    "sharpness": "sharpness",
    "symmetry": "left-right symmetry",
    "compressibility": "compressibility (smooth)",
    "jpeg_size": "size as JPEG (no gradient)",
    "function": "custom function",
}
NETWORKS: tuple[RewardName, ...] = ("aesthetic", "clip", "pickscore", "hpsv2", "image_reward")
"""Rewards computed by a network, whose weights come from files; so may those of "reference"."""
READS_TEXT: tuple[RewardName, ...] = ("clip", "pickscore", "hpsv2", "image_reward")
_WITH_MODEL = {"reward": (*NETWORKS, "reference")}


class Reward(Section):
    """What an image is scored by, and its weight."""

    reward: Annotated[
        RewardName,
        Ui("Reward", search="aesthetic pickscore hps imagereward clip", choices=REWARD_LABELS),
    ] = "sharpness"
    """What images are scored by. The first five are networks that need weight files; most of the
    others need nothing."""

    train: Annotated[bool, Ui("Train toward it", search="held-out watch")] = True
    """Off only measures it: a reward that is not trained shows whether the trained one still means
    anything."""

    weight: Annotated[float, Field(ge=-1000, le=1000), Ui("Weight")] = 1.0
    """Its weight compared to the others; below 0, less of it is better. 1 is usual; more counts for
    more."""

    target: Annotated[
        float | None,
        Ui("Target score", level="advanced", search="hinge threshold target enough"),
    ] = None
    """Beyond this score nothing more is gained, which keeps images from becoming extreme; empty
    means no limit. In the reward's own units. Empty is usual; less stops sooner."""

    normalize: Annotated[bool, Ui("Normalize", level="advanced", search="mean spread scale")] = True
    """Measures it in standard deviations from the mean of the base model's images, so that weights
    of different rewards can be compared."""

    model: Annotated[
        str,
        Ui("Model", editor="model", search="clip weights file network", only_with=_WITH_MODEL),
    ] = ""
    """The network's folder or file, or its name on the Hugging Face Hub. For the aesthetic score
    and for CLIP: a CLIP in transformers' format."""

    head: Annotated[
        str,
        Ui("Head", editor="file", search="mlp linear", only_with={"reward": ("aesthetic",)}),
    ] = ""
    """The file with the aesthetic score's own weights, one layer or several."""

    folder: Annotated[
        str,
        Ui(
            "Reference images",
            editor="folder",
            only_with={"reward": ("reference",)},
            search="pictures",
        ),
    ] = ""
    """Images to be similar to."""

    text: Annotated[
        str,
        Field(max_length=1000),
        Ui("Text", level="advanced", only_with={"reward": READS_TEXT}),
    ] = ""
    """What images are compared with in place of their own prompt; empty means the prompt."""

    unlike: Annotated[
        str,
        Field(max_length=1000),
        Ui(
            "Negative text",
            level="advanced",
            only_with={"reward": ("clip", "pickscore", "hpsv2")},
            search="unlike",
        ),
    ] = ""
    """Text whose score is subtracted, such as "blurry, dull"; empty means none."""

    color: Annotated[
        Literal["warm", "cool", "red", "green", "blue"],
        Ui("Color", only_with={"reward": ("color",)}),
    ] = "warm"
    """Which color there should be more of: "warm" is red and yellow over blue."""

    quality: Annotated[
        int,
        Field(ge=1, le=100),
        Ui(
            "JPEG quality",
            level="advanced",
            only_with={"reward": ("compressibility", "jpeg_size")},
        ),
    ] = 80
    """The JPEG quality at which the size is measured. 80 is usual; lower ignores more fine
    detail."""

    function: Annotated[
        str,
        Field(max_length=1000),
        Ui(
            "Function",
            editor="function",
            search="python callable",
            only_with={"reward": ("function",)},
        ),
    ] = ""
    """A Python function of yours, as "file.py:function" or "module:function". It receives the
    images, (B, 3, height, width) from 0 to 1, and their prompts, and returns a score for each. Its
    code runs only after you have trusted it."""

    has_gradient: Annotated[
        bool,
        Ui("Has a gradient", level="advanced", only_with={"reward": ("function",)}),
    ] = False
    """Whether the function computes only with torch, so that it has a gradient; without one, only
    "best of n" can train toward it."""
