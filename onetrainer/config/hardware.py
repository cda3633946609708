"""Where and in which number format training computes."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base import Section, Ui

Precision = Literal["fp32", "bf16", "fp16"]


class Hardware(Section):
    """The device, its precision, and what trades memory for time."""

    device: Annotated[
        Literal["auto", "cuda", "cpu"],
        Ui(
            "Device",
            level="advanced",
            search="gpu",
            choices={"auto": "automatic", "cuda": "graphics card", "cpu": "processor"},
        ),
    ] = "auto"
    """Where training runs; "auto" takes the graphics card if there is one."""

    precision: Annotated[Precision, Ui("Precision", search="dtype mixed fp16 bf16")] = "bf16"
    """The number format of computing. Losses are fp32 in every case; trained weights are, too, but
    for a model's own, which "Trained weights as" keeps in fp32 or bf16."""

    gradient_checkpointing: Annotated[bool, Ui("Gradient checkpointing", search="memory vram")] = (
        False
    )
    """Saves memory by computing parts of the forward pass twice; costs about a third more time."""

    threads: Annotated[
        int, Field(ge=0, le=1024), Ui("CPU threads", level="advanced", search="cores")
    ] = 0
    """How many threads the processor's share of the work uses; 0 means one for every core."""
