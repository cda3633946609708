"""Settings of the files that a run writes."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.amount import InSteps, Steps
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.methods.adapters import WITH_ADAPTERS

SavePrecision = Literal["fp32", "fp16", "bf16"]
LoraNaming = Literal["kohya", "diffusers", "comfyui"]
ModelFormat = Literal["single-file", "diffusers"]
BOARD_PACKAGE = "tensorboard"
BOARD_EXTRA = "tensorboard"


class Output(Section):
    """The files of a run."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=100, pattern=r'^[^/\\:*?"<>|\x00-\x1f]+$'),
        Ui("Name", search="file title"),
    ] = "my-lora"
    """The name of the run and of its finished file."""

    folder: Annotated[str, Ui("Runs folder", editor="new-folder", search="workspace")] = "runs"
    """Each run gets a new folder in here."""

    precision: Annotated[SavePrecision, Ui("Save precision", level="advanced", search="dtype")] = (
        "fp16"
    )
    """The number format of the finished file. Every program reads fp16; fp32 is exact and twice as
    large."""

    lora_naming: Annotated[
        LoraNaming,
        Ui(
            "LoRA naming",
            level="advanced",
            search="format keys kohya peft comfyui",
            choices={"comfyui": "ComfyUI"},
            only_with=WITH_ADAPTERS,
        ),
    ] = "kohya"
    """How layers are named in a LoRA file. Nearly every program reads "kohya"; "diffusers" and
    "comfyui" are the native names of those two."""

    fold_alpha: Annotated[
        bool,
        Ui(
            "Fold alpha",
            level="advanced",
            search="strength scale alpha dim write rank",
            only_with=WITH_ADAPTERS,
        ),
    ] = False
    """Writes a LoRA's alpha as its rank, with the matrices scaled to the same effect, for programs
    that ignore alpha. Strength 1 works as trained either way."""

    model_format: Annotated[
        ModelFormat,
        Ui(
            "Model format",
            level="advanced",
            search="checkpoint safetensors diffusers folder layout",
            choices={"single-file": "one file", "diffusers": "diffusers folder"},
            only_with={"method.kind": ("full", "vae")},
        ),
    ] = "single-file"
    """How a fine-tuned model is written: as a single file in the original layout, which most
    programs read, or as a diffusers folder."""

    save_every: Annotated[
        Steps,
        InSteps(0, repeats=True),
        Ui("Checkpoint every", unit="steps", search="backup"),
    ] = 250
    """Saves a checkpoint to resume from every so many steps, or every "1 epoch" or "500 images"; 0
    means only when the run stops and at the end. 250 steps are usual; more often loses less at a
    failure and takes more time."""

    tensorboard: Annotated[
        bool, Ui("TensorBoard", level="advanced", search="log curves scalars events wandb")
    ] = False
    """Also writes curves and images for TensorBoard into the run's folder; needs an extra
    package."""

    keep_checkpoints: Annotated[
        int, Field(ge=1, le=1000), Ui("Keep checkpoints", level="advanced", search="backup prune")
    ] = 2
    """How many of the newest checkpoints are kept; older ones are deleted. 2 are usual; more take
    more disk space and can be compared."""

    export_every: Annotated[
        Steps,
        InSteps(0, repeats=True),
        Ui("Export every", unit="steps", zero="never", search="save_every_n_steps intermediate"),
    ] = 0
    """Also writes the file as trained so far every so many steps, or every "1 epoch", as NAME-STEP,
    to compare them. 0 writes none; five to ten in a run are usual. Any checkpoint that is kept can
    become a file later."""

    export_from: Annotated[
        Steps,
        InSteps(0),
        Ui(
            "Export from",
            unit="steps",
            zero="the first",
            level="advanced",
            search="start after",
            only_with={"export_every": ("*",)},
        ),
    ] = 0
    """After how many steps, or "2 epochs", the first of these files is written: earlier ones are
    rarely of use. 0, or half of the run, is usual; later writes fewer files."""

    keep_exports: Annotated[
        int,
        Field(ge=0, le=1000),
        Ui(
            "Keep exports",
            zero="all",
            level="advanced",
            search="save_last_n_steps prune",
            only_with={"export_every": ("*",)},
        ),
    ] = 0
    """How many of the newest of these files are kept, besides that of the best step; 0 keeps all. A
    LoRA's take megabytes each, a fine-tuned model's gigabytes. 0 is usual; fewer take less disk
    space."""
