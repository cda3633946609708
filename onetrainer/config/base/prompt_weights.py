"""The ways in which weights of words in a prompt are read."""

from collections.abc import Mapping
from typing import Literal

PromptWeights = Literal["off", "a1111", "comfyui"]
PROMPT_WEIGHTS: Mapping[str, str] = {
    "off": "off",
    "a1111": "AUTOMATIC1111",
    "comfyui": "ComfyUI",
}
