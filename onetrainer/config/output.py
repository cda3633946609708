"""What a run leaves behind, and where."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base import Section, Ui

SavePrecision = Literal["fp32", "fp16", "bf16"]
LoraNaming = Literal["kohya", "diffusers", "comfyui"]


class Output(Section):
    """The files of a run."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=100, pattern=r'^[^/\\:*?"<>|\x00-\x1f]+$'),
        Ui("Name", search="file title"),
    ] = "my-lora"
    """The name of the run and of the file it makes."""

    folder: Annotated[str, Ui("Runs folder", editor="new-folder", search="workspace")] = "runs"
    """Each run gets a new folder of its own in here."""

    precision: Annotated[SavePrecision, Ui("Save as", level="advanced", search="dtype")] = "fp16"
    """The number format of the finished file. Every program reads fp16."""

    lora_naming: Annotated[
        LoraNaming,
        Ui(
            "LoRA naming",
            level="advanced",
            search="format keys kohya peft comfyui",
            choices={"comfyui": "ComfyUI"},
        ),
    ] = "kohya"
    """How the layers are named in a LoRA file. Nearly every program reads "kohya"; "diffusers" and
    "comfyui" are the names that those two use themselves."""

    save_every: Annotated[
        int, Field(ge=0, le=10_000_000), Ui("Checkpoint every", unit="steps", search="backup")
    ] = 250
    """Saves the state of the run after every so many steps, to resume from; 0 means only when it
    stops and at the end."""

    keep_checkpoints: Annotated[
        int, Field(ge=1, le=1000), Ui("Keep checkpoints", level="advanced", search="backup prune")
    ] = 2
    """How many of the newest checkpoints are kept; older ones are deleted."""
