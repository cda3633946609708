"""The requests to merge LoRAs, to resize one and to extract one, checked by files' headers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.captions.prompt_file import MAX_TEXT
from onetrainer.captions.sample_prompt_file import prompt_of_line
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.run.model import FamilyName
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.files.atomic import is_taken
from onetrainer.files.names import require_portable
from onetrainer.jobs.convert_request import (
    Format,
    Precision,
    model_format,
    refuse_overlap,
    require_suffix,
)
from onetrainer.jobs.sample_request import SampledLora
from onetrainer.model_files.adapters import adapter_at
from onetrainer.model_files.choices import require_family, require_made_for
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import DESCRIPTIONS, ModelFile
from onetrainer.run.steps import require_step

Rank = Annotated[int | None, Field(ge=1, le=4096), Ui("Rank")]
Energy = Annotated[float | None, Field(gt=0, le=1), Ui("Energy kept", unit="SHARE")]
DEFAULT_RANK = 32
SIDES = ("base", "before", "after")
"""Images of the base model alone, with what there was before, and with what was written."""


class _Output(Section):
    """What all requests have in common: how the result is written and where it is computed."""

    to: Format = ""
    """The format to write. LoRAs: kohya (if left out), diffusers or comfyui. Models: diffusers or
    original; inferred from OUT's name if left out."""

    precision: Annotated[Precision, Ui("Precision")] = "keep"
    """The number format of the weights; "keep" is that of the sources. fp16 is usual, and halves a
    file of fp32 with hardly a difference."""

    family: Annotated[FamilyName | None, Ui("Model family", choices=FAMILY_LABELS)] = None
    """The model family; detected if left out, which nearly always works."""

    overwrite: Annotated[bool, Ui("Overwrite")] = False
    """Replaces an existing OUT; usually off, so that nothing is lost."""

    device: Annotated[Literal["cpu", "cuda"], Ui("Device")] = "cpu"
    """Where matrices are decomposed, in double precision. "cpu" is usual, and takes minutes for a
    large model; "cuda" is faster, and has not been tried yet."""

    picture: Annotated[str, Field(max_length=MAX_TEXT), Ui("Compare images of", unit="PROMPT")] = ""
    """A prompt of which images are generated before and after, from the same noise, and written
    beside OUT. It may end in options, as in "a cat --w 512 --h 512 --d 7 --s 20"."""


class MergeRequest(_Output):
    """The merging of LoRAs into a base model, or into one LoRA."""

    target: Annotated[str, Ui("Target", unit="OUT")]
    """The file to write, such as both.safetensors; with --into also a folder."""

    loras: Annotated[tuple[SampledLora, ...], Ui("LoRA", unit="FILE[:STRENGTH]")] = ()
    """A LoRA, or a file of its relatives, and its strength, 1 if left out. 0.5 to 1 is usual; less
    weakens what it has trained, below 0 is the opposite. Also RUN or RUN@STEP: what a run had
    trained by a step of which it keeps a checkpoint or a file."""

    into: Annotated[str, Ui("Into", unit="MODEL")] = ""
    """The base model to merge them into, a file or a folder; without it one LoRA is written."""

    base: Annotated[str, Ui("Base model", unit="MODEL")] = ""
    """The base model that the LoRAs were trained on. Needed for images, and to make a LoRA of DoRA,
    OFT, (IA)³ and GLoRA, whose changes depend on its weights."""

    rank: Rank = None
    """The highest rank of a layer. 16 to 64 is usual; less makes a smaller file and loses more. If
    neither it nor the energy is given, nothing is lost: ranks add up."""

    energy: Energy = None
    """The share of each layer's change to keep, from 0 to 1, by squared singular values; 0.98 is
    usual."""


class ResizeRequest(_Output):
    """The change of a LoRA's rank."""

    source: Annotated[str, Ui("Source", unit="IN")]
    """A LoRA, or a file of its relatives, which becomes a LoRA; it is never changed."""

    target: Annotated[str, Ui("Target", unit="OUT")]
    """The file to write, such as small.safetensors."""

    rank: Rank = None
    """The highest rank of a layer. 8 to 32 is usual; less makes a smaller file and loses more. It
    or the energy is needed."""

    energy: Energy = None
    """The share of each layer's change to keep, from 0 to 1, by squared singular values; 0.98 is
    usual."""

    base: Annotated[str, Ui("Base model", unit="MODEL")] = ""
    """The base model that it was trained on; needed for images, and for DoRA, OFT, (IA)³ and
    GLoRA."""


class ExtractRequest(_Output):
    """The extraction of the difference of two models as a LoRA."""

    base: Annotated[str, Ui("Base model", unit="BASE")]
    """The model before training, a file or a folder."""

    tuned: Annotated[str, Ui("Trained model", unit="TRAINED")]
    """The model that was trained from it."""

    target: Annotated[str, Ui("Target", unit="OUT")]
    """The file to write, such as small.safetensors."""

    rank: Rank = None
    """The highest rank of a layer; 32 if neither it nor the energy is given. 32 to 128 is usual for
    a fine-tuned model; more keeps more and makes the file larger."""

    energy: Energy = None
    """The share of each layer's change to keep, from 0 to 1, by squared singular values; 0.98 is
    usual."""

    precision: Annotated[Precision, Ui("Precision")] = "fp16"
    """The number format of the LoRA; fp16 is usual."""


def images_beside(target: Path) -> dict[str, Path]:
    """Return the paths of the images that are compared, by their side."""
    return {side: target.with_name(f"{target.stem}-{side}.png") for side in SIDES}


def merge_of_resize(request: ResizeRequest) -> MergeRequest:
    """Return the merging of the one LoRA. Raises UserError without a rank or an energy."""
    if request.rank is None and request.energy is None:
        raise UserError(
            "the new rank is missing",
            "Expected --rank, --energy or both",
            "Add --rank 16, or --energy 0.98",
        )
    shared = request.model_dump(exclude={"source"}, exclude_unset=True)
    return MergeRequest.model_validate({**shared, "loras": [{"path": request.source}]})


def examine_merge(request: MergeRequest) -> None:
    """Check a merging by the headers of its files.

    Raises:
        UserError: If a file is none of what is expected, or an option does not apply.
    """
    target, bases = Path(request.target), [Path(p) for p in (request.into, request.base) if p]
    loras = [Path(lora.path) for lora in request.loras if lora.run is None]
    if not request.loras:
        raise UserError("there is no LoRA", "Expected at least one", "Add --lora FILE")
    if request.into:
        options = {"--base": request.base, "--rank": request.rank, "--energy": request.energy}
        if chosen := [option for option, value in options.items() if value]:
            raise UserError(
                f"{', '.join(chosen)} cannot be used with --into",
                "Expected only how a LoRA is to be written",
                "Leave it out: merging into a model is exact",
            )
        model_format(target, request.to)
    else:
        require_suffix(target)
    _check_target(target, [*loras, *bases], request)
    if request.picture and not bases:
        raise UserError(
            "Images to compare need a base model",
            "Expected the one that the LoRA was trained on",
            "Add --base MODEL, or leave --picture out",
        )
    family = request.family
    for base in bases:
        family = require_model(base, family)
    for lora in request.loras:
        if lora.run is not None:
            require_step(lora.run, lora.step)
    for file in loras:
        found = inspect_model(file)
        if found.kind != "lora":
            raise _not_expected(found, "a LoRA (--lora)")
        if family:
            require_made_for(found, family)
        adapter_at(file)


def examine_extract(request: ExtractRequest) -> None:
    """Check an extraction by the headers of its files. Raises UserError."""
    target, models = Path(request.target), [Path(request.base), Path(request.tuned)]
    require_suffix(target)
    _check_target(target, models, request)
    family = require_model(models[0], request.family)
    require_model(models[1], family)


def require_model(path: Path, family: FamilyName | None) -> FamilyName:
    """Return the family of a complete model, which is the given one, if any. Raises UserError."""
    found = inspect_model(path)
    detected = family or next((name for name in FAMILY_LABELS if name == found.kind), None)
    if detected is None:
        raise _not_expected(found, "a complete model")
    require_family(found, detected)
    return detected


def _check_target(target: Path, sources: Sequence[Path], request: _Output) -> None:
    require_portable(target)
    refuse_overlap(target, sources)
    paths = [target]
    if request.picture:
        prompt_of_line(request.picture, place="--picture")
        paths += images_beside(target).values()
    for path in () if request.overwrite else paths:
        if is_taken(path):
            raise UserError(f"{path}: exists already", "", "Choose another name, or --overwrite")


def _not_expected(found: ModelFile, expected: str) -> UserError:
    return UserError(
        f"{found.path.name}: this is {DESCRIPTIONS[found.kind]}",
        f"Expected {expected}",
        "Choose another file",
    )
