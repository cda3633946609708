"""One reward: what a picture is scored by."""

from collections.abc import Mapping
from types import MappingProxyType
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
REWARD_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "aesthetic": "LAION aesthetic score",
        "clip": "CLIP: picture and text",
        "pickscore": "PickScore",
        "hpsv2": "HPSv2",
        "image_reward": "ImageReward",
        "reference": "likeness to reference pictures",
        "color": "a color",
        "brightness": "brightness",
        "contrast": "contrast",
        "saturation": "saturation",
        "sharpness": "sharpness",
        "symmetry": "left-right symmetry",
        "compressibility": "compressibility (smooth)",
        "jpeg_size": "size as JPEG (no gradient)",
        "function": "a function of yours",
    }
)
NETWORKS: tuple[RewardName, ...] = ("aesthetic", "clip", "pickscore", "hpsv2", "image_reward")
"""Rewards that a network gives, whose weights come from files; so may that of "reference"."""
READS_TEXT: tuple[RewardName, ...] = ("clip", "pickscore", "hpsv2", "image_reward")
_WITH_MODEL = {"reward": (*NETWORKS, "reference")}


class Reward(Section):
    """What a picture is scored by, and how much that counts."""

    reward: Annotated[
        RewardName,
        Ui("Reward", search="aesthetic pickscore hps imagereward clip", choices=REWARD_WORDS),
    ] = "sharpness"
    """What pictures are scored by. The first five are networks whose weights you have; most of
    the others need nothing."""

    train: Annotated[bool, Ui("Train toward it", search="held-out watch")] = True
    """Off means that it is only watched: a reward that is not trained shows whether the trained
    one still means anything."""

    weight: Annotated[float, Field(ge=-1000, le=1000), Ui("Weight")] = 1.0
    """How much it counts beside the others; below 0, less of it is wanted."""

    target: Annotated[
        float | None,
        Ui("Enough at", level="advanced", search="hinge threshold target"),
    ] = None
    """Beyond this score more of it gains nothing, which keeps a picture from being driven to
    extremes; empty means without end. In the reward's own units."""

    normalize: Annotated[bool, Ui("Normalize", level="advanced", search="mean spread scale")] = True
    """Counts it in spreads from the mean of the base model's pictures, so that weights of different
    rewards can be compared."""

    model: Annotated[
        str,
        Ui("Network", editor="model", search="clip weights file", only_with=_WITH_MODEL),
    ] = ""
    """The network's folder or file on this disk, or its name on the Hugging Face Hub. For the
    aesthetic score and for CLIP: a CLIP in the form of transformers."""

    head: Annotated[
        str,
        Ui("Head", editor="file", search="mlp linear", only_with={"reward": ("aesthetic",)}),
    ] = ""
    """The file with the aesthetic score's own weights, one layer or several."""

    folder: Annotated[
        str,
        Ui("Reference pictures", editor="folder", only_with={"reward": ("reference",)}),
    ] = ""
    """The pictures to be like."""

    text: Annotated[
        str,
        Field(max_length=1000),
        Ui("Text", level="advanced", only_with={"reward": READS_TEXT}),
    ] = ""
    """What pictures are compared with in place of their own prompt; empty means the prompt."""

    unlike: Annotated[
        str,
        Field(max_length=1000),
        Ui("And unlike", level="advanced", only_with={"reward": ("clip", "pickscore", "hpsv2")}),
    ] = ""
    """Text whose score is taken off, such as "blurry, dull"; empty means none."""

    color: Annotated[
        Literal["warm", "cool", "red", "green", "blue"],
        Ui("Color", only_with={"reward": ("color",)}),
    ] = "warm"
    """More of which color: "warm" is red and yellow before blue."""

    quality: Annotated[
        int,
        Field(ge=1, le=100),
        Ui(
            "JPEG quality",
            level="advanced",
            only_with={"reward": ("compressibility", "jpeg_size")},
        ),
    ] = 80
    """The JPEG quality at which the size counts."""

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
    """A Python function of yours, as "file.py:function" or "module:function". It is given the
    pictures, (B, 3, height, width) from 0 to 1, and their prompts, and gives a score for each. Its
    code is run only after you have said so."""

    has_gradient: Annotated[
        bool,
        Ui("It has a gradient", level="advanced", only_with={"reward": ("function",)}),
    ] = False
    """Whether the function computes with torch all the way, so that its gradient can be followed;
    without one, only "best of n" can train toward it."""
