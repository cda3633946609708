"""The request to convert a file or folder, checked against what its source is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.run.model import FamilyName, PredictionChoice, ZeroSnrChoice
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.files.atomic import is_taken
from onetrainer.files.names import require_portable
from onetrainer.jobs.options import option_of
from onetrainer.model_files.choices import require_vae
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import DESCRIPTIONS, ModelFile
from onetrainer.run.fork import state_at
from onetrainer.run.run_folder import RunFolder
from onetrainer.tensor_files.table import PICKLE_SUFFIXES

Precision = Literal["keep", "fp32", "fp16", "bf16"]
ModelFormat = Literal["diffusers", "original"]

MODEL_FORMATS: Mapping[ModelFormat, str] = {
    "diffusers": "a folder with a file for each component",
    "original": "one .safetensors file in the original layout",
}

Format = Annotated[
    Literal["", "kohya", "diffusers", "comfyui", "original"],
    Ui(
        "Format",
        unit="FORMAT",
        choices={
            "": "the usual one",
            "comfyui": "ComfyUI, of a LoRA",
            "diffusers": "diffusers",
            "kohya": "kohya, of a LoRA",
            "original": "original, of a model",
        },
    ),
]
SUFFIX = ".safetensors"
_PATHS, _COMMON = ("source", "target"), ("precision", "overwrite")
_MODEL_OPTIONS = (*_COMMON, "to", "family", "prediction", "zero_terminal_snr", "vae", "ema")
_LORA_OPTIONS = (*_COMMON, "to", "family", "bundle")
_EMBEDDING_OPTIONS = (*_COMMON, "name")
_RUN_OPTIONS = (*_COMMON, "step")


class ConvertRequest(Section):
    """The conversion of one file or folder into another."""

    source: Annotated[str, Ui("Source", unit="IN")]
    """A file or a folder, also a run's; it is never changed."""

    target: Annotated[str, Ui("Target", unit="OUT")] = ""
    """The file or folder to write. May be left out for a run's folder: NAME-STEP in its output."""

    step: Annotated[int | None, Field(ge=1), Ui("Step")] = None
    """The step of a run's kept checkpoint to write the file of; the newest one if left out."""

    to: Format = ""
    """The format to write. Models: diffusers or original; inferred from OUT's name if left out.
    LoRAs: kohya (if left out), diffusers or comfyui."""

    precision: Annotated[Precision, Ui("Precision")] = "keep"
    """The number format of the weights; "keep" leaves each unchanged. fp16 is usual, and halves a
    file of fp32 with hardly a difference."""

    family: Annotated[FamilyName | None, Ui("Model family", choices=FAMILY_LABELS)] = None
    """The source's model family; detected if left out, which nearly always works."""

    prediction: Annotated[PredictionChoice, Ui("Prediction")] = "auto"
    """The model's prediction type; detected if left out. Epsilon is usual; a model says where it
    predicts velocity, and whoever published it."""

    zero_terminal_snr: Annotated[ZeroSnrChoice, Ui("Zero terminal SNR")] = "auto"
    """Whether the noise schedule ends in pure noise; detected if left out. Usually off; on for
    models that were trained so, most of them with v-prediction."""

    vae: Annotated[str, Ui("VAE", unit="FILE")] = ""
    """A VAE that replaces the model's own; usually left empty."""

    ema: Annotated[bool, Ui("EMA")] = False
    """Uses the EMA weights of the UNet, if the file has them: usually the better ones to generate
    images with."""

    overwrite: Annotated[bool, Ui("Overwrite")] = False
    """Replaces an existing OUT; usually off, so that nothing is lost."""

    name: Annotated[str, Ui("Name", unit="NAME")] = ""
    """An embedding's new name; for a file with several embeddings, or a LoRA with embeddings, the
    name of the one to extract."""

    bundle: Annotated[tuple[str, ...], Ui("Bundle", unit="FILE")] = ()
    """An embedding to bundle into the LoRA file."""


def source_run(request: ConvertRequest) -> RunFolder | None:
    """Return the run whose checkpoint is to be written as a file; None for any other source.

    Raises:
        UserError: If it has no such checkpoint, or the target or an option does not apply.
    """
    folder = RunFolder(Path(request.source))
    if not folder.is_run():
        return None
    _refuse_options(request, f"{folder.name}: this is a run", _RUN_OPTIONS)
    state_at(folder, request.step)
    if request.target:
        target = Path(request.target)
        require_portable(target)
        refuse_overlap(target, [folder.config, folder.checkpoints])
        if is_taken(target) and not request.overwrite:
            raise UserError(f"{target}: exists already", "", "Choose another name, or --overwrite")
    return folder


def examine(request: ConvertRequest) -> ModelFile:
    """Inspect the source and check the request against it; reads only headers, writes nothing.

    Raises:
        UserError: If the source cannot be converted, or an option does not apply to it.
    """
    source, target = Path(request.source), Path(request.target)
    if not request.target:
        raise UserError("OUT is missing", "Expected the file or folder to write", "Add its path")
    require_portable(target)
    model = inspect_model(source)
    refuse_overlap(target, [source, *map(Path, filter(None, (request.vae, *request.bundle)))])
    what, allowed = _kind_and_options(model, request)
    _refuse_options(request, f"{source.name}: this is {what}", allowed)
    if model.kind in ("lora", "embedding"):
        require_suffix(target)
    else:
        model_format(target, request.to)
    family = request.family or next((name for name in FAMILY_LABELS if name == model.kind), None)
    if request.vae and family:
        require_vae(inspect_model(Path(request.vae)), family)
    return model


def model_format(target: Path, name: str) -> ModelFormat:
    """Return the format of a base model by its name, or by the target's path if `name` is "".

    Raises:
        UserError: If there is no such format, or it does not fit the target's path.
    """
    if name and name not in MODEL_FORMATS:
        raise UserError(
            f'"{name}" is no format for a base model',
            "Expected " + " or ".join(f'"{key}" ({text})' for key, text in MODEL_FORMATS.items()),
            "Choose one of these, or leave it out",
        )
    is_file = target.suffix.lower() == SUFFIX
    if name == "diffusers" and is_file:
        raise UserError(f"{target.name}: expected a folder name", remedy="Leave out the suffix")
    if name == "original" or target.suffix.lower() in PICKLE_SUFFIXES:
        require_suffix(target)
    return "original" if is_file else "diffusers"


def _refuse_options(request: ConvertRequest, what: str, allowed: Sequence[str]) -> None:
    chosen = request.model_dump(exclude_defaults=True)
    others = [option_of(name) for name in chosen if name not in (*_PATHS, *allowed)]
    if others:
        raise UserError(
            f"{what}; {', '.join(others)} cannot be used with it",
            f"Expected only {', '.join(map(option_of, allowed))}",
            "Leave out the others",
        )


def require_suffix(target: Path) -> None:
    """Raise UserError unless the target is named as a single file."""
    if target.suffix.lower() != SUFFIX:
        is_pickle = target.suffix.lower() in PICKLE_SUFFIXES
        raise UserError(
            f"{target.name}: single files are written as {SUFFIX} only",
            f"Expected a name that ends in {SUFFIX}",
            f"Use {target.stem if is_pickle else target.name}{SUFFIX}",
        )


def _kind_and_options(model: ModelFile, request: ConvertRequest) -> tuple[str, Sequence[str]]:
    """Return a description of what is converted and the names of its options."""
    what = DESCRIPTIONS[model.kind].partition(",")[0]
    match model.kind:
        case "lora" if request.name:
            return "an embedding in a LoRA's file", _EMBEDDING_OPTIONS
        case "lora":
            return what, _LORA_OPTIONS
        case "embedding":
            return what, _EMBEDDING_OPTIONS
        case kind if kind in FAMILY_LABELS or request.family:
            return what, _MODEL_OPTIONS
    raise UserError(
        f"{model.path.name}: this is {DESCRIPTIONS[model.kind]}",
        "Expected a complete model, a LoRA or an embedding",
        "Choose another file",
    )


def refuse_overlap(target: Path, sources: Sequence[Path]) -> None:
    """Check that the target overlaps with no source and no target of a source's links."""
    resolved = target.resolve()
    # Also the symbolic links in a model's folder and in its component folders.
    inside = (path for source in sources for part in ("*", "*/*") for path in source.glob(part))
    for path in (*sources, *(path for path in inside if path.is_symlink())):
        protected = path.resolve()
        if protected == resolved or resolved in protected.parents or protected in resolved.parents:
            raise UserError(
                f"{target}: this would overwrite {path.name}",
                "Expected a path separate from the sources",
                "Choose another name",
            )
