"""What every kind of adapter declares, and settings that several share."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

AdapterTargets = Literal["attn", "attn-mlp", "full", "named"]
TARGET_LABELS: Mapping[str, str] = {
    "attn": "attention",
    "attn-mlp": "attention and feed-forward",
    "full": "every layer",
    "named": "only layers listed below",
}
Targets = Annotated[
    AdapterTargets,
    Ui(
        "Layers",
        level="advanced",
        search="modules blocks preset",
        choices=TARGET_LABELS,
    ),
]
RULES = Ui("Layers by name", level="advanced", search="pattern regex filter block rank lr")
ModuleDropout = Annotated[
    float, Field(ge=0, lt=1), Ui("Module dropout", level="advanced", search="regularisation")
]
StartFrom = Annotated[
    str, Ui("Continue from", level="advanced", editor="file", search="resume network_weights")
]


class AdapterSection(Section):
    """The settings and properties of one kind of adapter.

    Attributes:
        noun: Title with its article.
        namings: The namings of files that support it; see `output.lora_naming`.
    """

    title: ClassVar[str]
    noun: ClassVar[str]
    namings: ClassVar[tuple[Literal["kohya", "diffusers", "comfyui"], ...]] = ("kohya", "comfyui")
    kind: str
