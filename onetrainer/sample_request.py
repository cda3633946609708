"""What a drawing of pictures is asked to do: base model, what is added to it, prompts and seeds."""

import argparse
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from onetrainer.config.base import Section, Ui
from onetrainer.config.hardware import Precision
from onetrainer.config.model import (
    FamilyName,
    Model,
    Prediction,
    PredictionChoice,
    ZeroSnrChoice,
    base_of,
)
from onetrainer.config.sampling import Prompt, SamplerName, Sampling
from onetrainer.errors import UserError
from onetrainer.hub import is_hub_name
from onetrainer.model_files import (
    DESCRIPTIONS,
    ModelFile,
    inspect_model,
    require_family,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.options import given, validated

SIDES = {"sd15": 512, "sd2": 512, "sdxl": 1024}
SIDE_OF_SD2_V = 768
FAMILIES: tuple[FamilyName, ...] = get_args(FamilyName)
NO_ADDITIONS = ("vae", "unet", "text-encoder", *FAMILIES)

SIDE = Field(ge=64, le=4096, multiple_of=8)
Strength = Annotated[float, Field(ge=-100, le=100), Ui("Strength")]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Text = Annotated[str, Field(max_length=4000)]


class Lora(Section):
    """A LoRA file, and how strongly it counts; 1 is as it was trained."""

    path: str
    strength: Strength = 1.0


class SampleRequest(Section):
    """Pictures of every prompt with every seed."""

    base: str
    """A folder, a file or the name of a model on the hub."""

    family: Annotated[FamilyName | None, Ui("Model family")] = None
    """None means what the model's tensors say."""

    prediction: Annotated[PredictionChoice, Ui("Prediction")] = "auto"
    zero_terminal_snr: Annotated[ZeroSnrChoice, Ui("Zero terminal SNR")] = "auto"
    clip_skip: Annotated[int, Field(ge=0, le=12), Ui("Clip skip")] = 0
    vae: str = ""
    offline: bool = False

    prompts: Annotated[tuple[Text, ...], Field(min_length=1)]
    negative: Text = ""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (Prompt().seed,)
    loras: tuple[Lora, ...] = ()
    embeddings: tuple[str, ...] = ()
    """Files; the word of each is the file's name without suffix, and the name it tells itself."""

    width: Annotated[int | None, SIDE, Ui("Width")] = None
    height: Annotated[int | None, SIDE, Ui("Height")] = None
    """None means what the model was made for."""

    steps: Annotated[int, Field(ge=1, le=1000), Ui("Sampling steps")] = Sampling().steps
    guidance: Annotated[float, Field(ge=0, le=50), Ui("Guidance")] = Sampling().guidance
    guidance_rescale: Annotated[float, Field(ge=0, le=1), Ui("Guidance rescale")] = 0.0
    sampler: Annotated[SamplerName, Ui("Sampler")] = Sampling().sampler
    batch: Annotated[int, Field(ge=1, le=1024), Ui("Pictures at once")] = 1
    precision: Annotated[Precision | None, Ui("Precision")] = None
    """None means bf16 on a graphics card, and fp32 on the processor."""

    device: Annotated[Literal["auto", "cuda", "cpu"], Ui("Device")] = "auto"
    grid: bool = False
    out: str = "samples"


def request_of(options: argparse.Namespace) -> SampleRequest:
    """The request of a command line; raises UserError for what can be known to be wrong already."""
    values = given(options, SampleRequest) | {
        "prompts": _prompts(options),
        "seeds": _seeds(options),
        "loras": [_lora(text) for text in options.lora],
        "embeddings": options.embedding,
    }
    request = validated(SampleRequest, values)
    _check_files(request)
    return request


def model_section(request: SampleRequest, path: Path) -> Model:
    """The base model's settings, with the family that it has. path: of it, on this disk.

    Raises UserError for a model of another family than the asked one, or of none.
    """
    return Model(
        family=_family(request, inspect_model(path)),
        path=str(path),
        vae=request.vae,
        prediction=request.prediction,
        zero_terminal_snr=request.zero_terminal_snr,
        clip_skip=request.clip_skip,
        offline=request.offline,
    )


def size_of(request: SampleRequest, family: FamilyName, prediction: Prediction) -> tuple[int, int]:
    """Width and height: the asked ones, or what the model was made for."""
    base = base_of(family)
    is_large = base == "sd2" and prediction == "v_prediction"
    side = SIDE_OF_SD2_V if is_large else SIDES[base]
    return request.width or side, request.height or side


def _family(request: SampleRequest, model: ModelFile) -> FamilyName:
    # Of a model that is none of them, the message tells what it is.
    told = next((name for name in FAMILIES if name == model.kind), FAMILIES[0])
    family = request.family or told
    require_family(model, family, vae_given=bool(request.vae))
    return family


def _check_files(request: SampleRequest) -> None:
    """Told before an engine is loaded for nothing."""
    if not is_hub_name(request.base):
        section = model_section(request, Path(request.base))
        model = inspect_model(Path(request.base))
        resolve_prediction(model, section.prediction)
        resolve_zero_snr(model, section.zero_terminal_snr)
    paths = [*(lora.path for lora in request.loras), *request.embeddings, request.vae]
    for path in map(Path, filter(None, paths)):
        if not path.exists():
            raise UserError(
                f"{path}: there is no such file", remedy="Check its path, and quote spaces in it"
            )
    for path in [*(Path(lora.path) for lora in request.loras), *map(Path, request.embeddings)]:
        kind = inspect_model(path).kind
        if kind in NO_ADDITIONS:
            raise UserError(
                f"{path.name}: this is {DESCRIPTIONS[kind]}",
                "A LoRA (--lora) or an embedding (--embedding) was expected",
                "Choose another file",
            )


def _prompts(options: argparse.Namespace) -> list[str]:
    prompts = [*options.prompt]
    if options.prompts is not None:
        prompts += _lines(options.prompts)
    if not prompts:
        raise UserError(
            "there is no prompt",
            "At least one was expected",
            'Add --prompt "what the picture should show", or --prompts FILE',
        )
    return prompts


def _lines(path: Path) -> list[str]:
    """One prompt a line, without empty lines and comments."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: the prompts cannot be read ({error})",
            "A text file in UTF-8 with a prompt on each line was expected",
        ) from error
    return [line for line in lines if line and not line.startswith("#")]


def _seeds(options: argparse.Namespace) -> list[str | int]:
    seeds: list[str | int] = options.seed or [Prompt().seed]
    if options.seeds is None:
        return seeds
    if len(seeds) > 1:
        raise UserError(
            "--seeds counts on from one seed, and several were given",
            remedy="Give --seed once, or leave --seeds out",
        )
    try:
        first, count = int(seeds[0]), int(options.seeds)
    except ValueError as error:
        raise UserError("--seed and --seeds take whole numbers") from error
    if not 1 <= count <= 10_000:
        raise UserError(f"--seeds: {count} is not allowed here", "Expected 1 to 10,000")
    return [first + number for number in range(count)]


def _lora(text: str) -> dict[str, str]:
    """A file and its strength: "style.safetensors:0.8". The colon of a drive is none of ours."""
    path, colon, strength = text.rpartition(":")
    if colon and path and not Path(text).exists() and _is_number(strength):
        return {"path": path, "strength": strength}
    return {"path": text}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
