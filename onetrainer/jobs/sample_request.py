"""The request to generate images: base model, additions to it, prompts and seeds."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from onetrainer.captions.prompt_file import MAX_TEXT, require_prompts
from onetrainer.captions.sample_prompt_file import read_sample_prompts, sampler_name
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.base.prompt_weights import PromptWeights
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.problems import format_value
from onetrainer.config.run.hardware import Device, Precision
from onetrainer.config.run.model import FamilyName, Model, PredictionChoice, ZeroSnrChoice
from onetrainer.config.run.sampling import (
    MAX_STRENGTH,
    PAIR,
    Prompt,
    SamplerName,
    Sampling,
)
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS, family_spec
from onetrainer.families.spec import Prediction
from onetrainer.jobs.options import add_options, request_values, validate_request
from onetrainer.model_files import (
    DESCRIPTIONS,
    inspect_model,
    require_family,
    require_made_for,
    require_published_size,
    require_vae,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.hub import is_hub_name

NOT_ADDITIONS = ("vae", "unet", "text-encoder", *FAMILY_LABELS)

MAX_SEED = 2**63 - 1
MAX_SEEDS = 10_000

SIDE = Field(ge=64, le=4096, multiple_of=8)
Strength = Annotated[float, Field(ge=-MAX_STRENGTH, le=MAX_STRENGTH)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]


class Lora(Section):
    """A LoRA file and its strength; 1 is the strength it was trained with."""

    path: str
    strength: Strength = 1.0


class SampleRequest(Section):
    """The request to generate an image of every prompt with every seed."""

    base: Annotated[str, Ui("Base model", unit="BASE")]
    """A folder, a file or the name of a model on the Hugging Face Hub."""

    prompts: Annotated[tuple[Text, ...], Ui("Prompt", lead="content")] = ()
    """What an image should show."""

    listed: tuple[Prompt, ...] = ()
    """Prompts of a file. What one sets itself (`model_fields_set`) goes before the options."""

    negative: Annotated[Text, Ui("Negative prompt")] = ""
    """What no image should show."""

    prompt_weights: Annotated[PromptWeights, Ui("Prompt weights")] = "off"
    """Reads (word:1.3) as a weight, as "a1111" or "comfyui" do; "off" reads it as text."""

    seeds: Annotated[tuple[Seed, ...], Field(min_length=1), Ui("Seed", unit="N")] = (Prompt().seed,)
    """The seed of the noise."""

    width: Annotated[int | None, SIDE, Ui("Width", unit="PX")] = None
    """A multiple of 8; the side that the model was trained at if left out."""

    height: Annotated[int | None, SIDE, Ui("Height", unit="PX")] = None
    """The same for the height."""

    loras: Annotated[
        tuple[Lora, ...], Ui("LoRA", unit="FILE[:STRENGTH]", lead="additions to the model")
    ] = ()
    """A LoRA and its strength, 1 if left out."""

    embeddings: Annotated[tuple[str, ...], Ui("Embedding", unit="FILE")] = ()
    """An embedding; its token is the file's name without suffix, or the name inside."""

    vae: Annotated[str, Ui("VAE", unit="FILE")] = ""
    """A VAE that replaces the model's own."""

    clip_skip: Annotated[int, Field(ge=0, le=12), Ui("Clip skip")] = 0
    """The text encoder layer to use, counted from the end: 1 for the last, up to 12. 0 is the
    layer that the model was trained with."""

    family: Annotated[FamilyName | None, Ui("Model family", choices=FAMILY_LABELS)] = None
    """The model's family; detected if left out."""

    prediction: Annotated[PredictionChoice, Ui("Prediction")] = "auto"
    """The model's prediction type; detected if left out."""

    zero_terminal_snr: Annotated[ZeroSnrChoice, Ui("Zero terminal SNR")] = "auto"
    """Whether the noise schedule ends in pure noise; detected if left out."""

    circular_padding: Annotated[bool, Ui("Circular padding")] = False
    """Seamless textures: convolutions wrap around the edges, as in training with it."""

    offline: Annotated[bool, Ui("Offline")] = False
    """Never uses the network."""

    sampler: Annotated[SamplerName, Ui("Sampler", lead="sampling")] = Sampling().sampler
    """The method that turns noise into an image, also by its usual name: "DPM++ 2M Karras"."""

    steps: Annotated[int, Field(ge=1, le=1000), Ui("Sampling steps")] = Sampling().steps
    """Denoising steps."""

    guidance: Annotated[float, Field(ge=0, le=50), Ui("Guidance")] = Sampling().guidance
    """How strongly images follow their prompt; 1 for no guidance."""

    guidance_rescale: Annotated[float, Field(ge=0, le=1), Ui("Guidance rescale")] = 0.0
    """0 to 1; 0.7 for models with zero terminal SNR."""

    batch: Annotated[int, Field(ge=1, le=1024), Ui("Images at once")] = 1
    """Images at once."""

    precision: Annotated[Precision | None, Ui("Precision")] = None
    """The number format of computing; bf16 on a GPU and fp32 on the CPU if left out."""

    device: Annotated[Device, Ui("Device")] = "auto"
    """Where images are generated; "auto" uses the GPU if there is one."""

    grid: Annotated[bool, Ui("Grid")] = False
    """Also writes a grid of all images, prompts by seeds."""

    out: Annotated[str, Ui("Output folder", unit="FOLDER")] = "samples"
    """The output folder; nothing in it is overwritten."""


def add_sample_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field, and those that stand for many prompts or seeds."""
    add_options(parser, SampleRequest)
    text = (
        "A prompt per line, perhaps with options of its own (--n --w --h --d --s --l --ss), or a"
        " .json list of prompts with their settings; # starts a comment."
    )
    parser.add_argument("--prompts", type=Path, dest="file", metavar="FILE", help=text)
    text = "So many seeds, counting up from --seed."
    parser.add_argument("--seeds", dest="count", metavar="N", help=text)


def request_of(options: argparse.Namespace) -> SampleRequest:
    """Return the request of a command line.

    Raises:
        UserError: If an option or one of the files is wrong; only file headers are read.
    """
    values = request_values(options, SampleRequest) | {
        "prompts": _prompts(options),
        "listed": _listed(options),
        "seeds": _seeds(options),
        "loras": [strong_lora(text) for text in options.loras or ()],
    }
    if options.sampler is not None:
        values["sampler"] = sampler_name(options.sampler)
    request = validate_request(SampleRequest, values)
    _check_files(request)
    return request


def model_section(request: SampleRequest, path: Path) -> Model:
    """Return the base model's settings with its family. path: The model on this disk.

    Raises:
        UserError: If the model's family is not the requested one, or unknown.
    """
    model = inspect_model(path)
    # For a model of no known family, `require_family` reports what it is.
    detected = next(
        (name for name in FAMILY_LABELS if name == model.kind), next(iter(FAMILY_LABELS))
    )
    family = request.family or detected
    require_family(model, family, has_custom_vae=bool(request.vae))
    require_published_size(model)
    return Model(
        family=family,
        path=str(path),
        vae=request.vae,
        prediction=request.prediction,
        zero_terminal_snr=request.zero_terminal_snr,
        clip_skip=request.clip_skip,
        circular_padding=request.circular_padding,
        offline=request.offline,
    )


def rows_of(
    request: SampleRequest, family: FamilyName, prediction: Prediction
) -> list[tuple[Shot, ...]]:
    """Return the images of each prompt, one for each seed.

    Sizes are those of the prompt, the request, or the side that the model was trained at.
    """
    prompts = [*(Prompt(prompt=text) for text in request.prompts), *request.listed]
    side = family_spec(family).side_of(prediction)
    size = {"width": request.width or side, "height": request.height or side}
    return [tuple(_shots(request, prompt, size)) for prompt in prompts]


def _shots(request: SampleRequest, prompt: Prompt, size: Mapping[str, int]) -> Iterator[Shot]:
    own = prompt.model_fields_set
    for seed in (prompt.seed,) if "seed" in own else request.seeds:
        others = {"negative": request.negative, "seed": seed, **size}
        yield Shot(
            prompt.model_copy(update={k: v for k, v in others.items() if k not in own}),
            steps=request.steps if prompt.steps is None else prompt.steps,
            guidance=request.guidance if prompt.guidance is None else prompt.guidance,
            sampler=request.sampler if prompt.sampler == "run" else prompt.sampler,
            strength=1.0,
            title=prompt.prompt,
        )


def require_additions(request: SampleRequest, family: FamilyName | None) -> None:
    """Check that the LoRAs, embeddings and VAE are such files, made for the family.

    Only headers are read; a file of unknown family passes. family: The base model's; None if
    unknown.

    Raises:
        UserError: If one of them is not.
    """
    if request.vae and family:
        require_vae(inspect_model(Path(request.vae)), family)
    for path in [*(Path(lora.path) for lora in request.loras), *map(Path, request.embeddings)]:
        model = inspect_model(path)
        if model.kind in NOT_ADDITIONS:
            raise UserError(
                f"{path.name}: this is {DESCRIPTIONS[model.kind]}",
                "Expected a LoRA (--lora) or an embedding (--embedding)",
                "Choose another file",
            )
        if family:
            require_made_for(model, family)


def _check_files(request: SampleRequest) -> None:
    """Check the files before the engine is loaded."""
    paths = [*(lora.path for lora in request.loras), *request.embeddings, request.vae]
    for path in map(Path, filter(None, paths)):
        if not path.exists():
            raise UserError(
                f"{path}: no such file", remedy="Check the path, and quote spaces in it"
            )
    if is_hub_name(request.base):  # checked after the download
        require_additions(request, None)
        return
    section = model_section(request, Path(request.base))
    model = inspect_model(Path(request.base))
    resolve_prediction(model, section.prediction)
    resolve_zero_snr(model, section.zero_terminal_snr)
    require_additions(request, section.family)


def _prompts(options: argparse.Namespace) -> list[str]:
    prompts = [*(options.prompts or ())]
    require_prompts("--prompt", prompts)
    require_prompts("--negative", [options.negative or ""])
    if not prompts and options.file is None:
        raise UserError(
            "there is no prompt",
            "Expected at least one",
            'Add --prompt "what the image should show", or --prompts FILE',
        )
    return prompts


def _listed(options: argparse.Namespace) -> list[dict[str, object]]:
    """Return the prompts of a file in use, with the settings that it has for them."""
    if options.file is None:
        return []
    prompts = [each for each in read_sample_prompts(options.file, place="--prompts") if each.use]
    if not prompts and not options.prompts:
        raise UserError(f"{options.file}: there is no prompt in it", "Expected at least one")
    given = set[str]().union(*(each.model_fields_set for each in prompts))
    if "strengths" in given:
        raise UserError(
            f"{options.file}: strengths are those of an adapter in training",
            "Expected LoRAs with their strength",
            "Remove them, and use --lora FILE:STRENGTH",
        )
    if options.grid and given & {"seed", "width", "height"}:
        raise UserError(
            f"{options.file}: a grid needs images of one size and the same seeds for all prompts",
            "Expected prompts without sizes and seeds of their own",
            "Remove these, or --grid",
        )
    for number, each in enumerate(prompts, start=1):
        if missing := each.missing_of_pair:
            raise UserError(
                f"{options.file}: prompt {number}: the {missing} is missing", PAIR, "Add it."
            )
    return [each.model_dump(exclude_unset=True) for each in prompts]


def _seeds(options: argparse.Namespace) -> list[int]:
    usual = Prompt().seed
    any_seed = f"Choose any; each gives a different image (default: {usual})"
    seeds = [
        _whole("--seed", text, 0, MAX_SEED, any_seed) for text in options.seeds or (str(usual),)
    ]
    if options.count is None:
        return seeds
    if len(seeds) > 1:
        raise UserError(
            "--seeds counts up from one seed, but --seed is repeated",
            remedy="Give --seed once, or leave --seeds out",
        )
    most = min(MAX_SEEDS, MAX_SEED - seeds[0] + 1)
    count = _whole("--seeds", options.count, 1, most, "Correct it, or leave it out")
    return [*range(seeds[0], seeds[0] + count)]


def _whole(option: str, text: str, low: int, high: int, remedy: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = low - 2  # not -1, which is a random seed in other programs
    if low <= number <= high:
        return number
    is_random = option == "--seed" and number == -1
    wrong = "does not mean a random seed" if is_random else "is not allowed"
    raise UserError(
        f"{option}: {format_value(text)} {wrong} here",
        f"Expected a whole number from {low} to {high:,}",
        remedy,
    )


def strong_lora(text: str) -> dict[str, object]:
    """Return a file and its strength from "style.safetensors:0.8", allowing for drive letters."""
    path, colon, suffix = text.rpartition(":")
    try:
        strength = float(suffix)
    except ValueError:
        return {"path": text}
    if not colon or not path or Path(text).exists():
        return {"path": text}
    if not -MAX_STRENGTH <= strength <= MAX_STRENGTH:
        raise UserError(
            f"--lora: {format_value(suffix)} is not allowed as the strength of {Path(path).name}",
            f"Expected a number from {-MAX_STRENGTH} to {MAX_STRENGTH}",
            "Correct it, or leave it out for 1",
        )
    return {"path": path, "strength": strength}
