"""The command line of a sampling request."""

import argparse
from pathlib import Path

from onetrainer.captions.prompt_file import require_prompts
from onetrainer.captions.sample_prompt_file import read_sample_prompts, sampler_name
from onetrainer.config.problems import format_value
from onetrainer.config.run.sampling import MAX_STRENGTH, PAIR, Prompt
from onetrainer.errors import UserError
from onetrainer.files.own_json import parse_json, typed
from onetrainer.jobs.options import add_options, request_values, validate_request
from onetrainer.jobs.sample_request import (
    AXIS_LABELS,
    MAX_SEED,
    SampleRequest,
    model_section,
    require_additions,
)
from onetrainer.jobs.sample_table import require_steps
from onetrainer.model_files.choices import resolve_prediction, resolve_zero_snr
from onetrainer.model_files.hub import is_hub_name
from onetrainer.model_files.inspection import inspect_model

MAX_SEEDS = 10_000


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

    for option, place in (("--x", "columns"), ("--y", "rows")):
        text = (
            f"A grid whose {place} differ in one setting: {', '.join(AXIS_LABELS)}. The values are"
            " separated by commas, or a JSON list; 1-4 are whole numbers. strength:2 is about the"
            " second LoRA."
        )
        parser.add_argument(option, metavar="SETTING=VALUES", help=text)


def request_of(options: argparse.Namespace) -> SampleRequest:
    """Return the request of a command line.

    Raises:
        UserError: If an option or one of the files is wrong; only file headers are read.
    """
    values = request_values(options, SampleRequest) | {
        "prompts": _prompts(options),
        "listed": _listed(options),
        "seeds": _seeds(options),
        "loras": [sampled_lora(text) for text in options.loras or ()],
        **{name: _axis(name, text) for name, text in (("x", options.x), ("y", options.y)) if text},
    }
    if options.sampler is not None:
        values["sampler"] = sampler_name(options.sampler)
    request = validate_request(SampleRequest, values)
    _check_files(request)
    require_steps(request)
    return request


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


def _axis(option: str, text: str) -> dict[str, object]:
    """Return what differs along a side of a grid from "guidance=3,5,7"."""
    name, sign, values = text.partition("=")
    name, _, number = name.strip().partition(":")
    if not sign or not values.strip() or name not in AXIS_LABELS:
        raise UserError(
            f"--{option} {format_value(text)}: this is no setting with values",
            f"Expected SETTING=VALUE,VALUE with one of {', '.join(AXIS_LABELS)}",
            f"Correct it, as in --{option} guidance=3,5,7",
        )
    listed = values.split(",")
    if values.lstrip().startswith("["):
        try:
            listed = [str(each) for each in typed(parse_json(values), list[str | float])]
        except ValueError as error:
            raise UserError(f"--{option}: the list is not JSON ({error})") from error
    return {"of": name, "values": [each.strip() for each in listed], "lora": number or 1}


def sampled_lora(text: str) -> dict[str, object]:
    """Return a LoRA or a run's step with its strength from "runs/paper-001@300:0.8"."""
    lora = strong_lora(text)
    run, at, step = str(lora["path"]).rpartition("@")
    if at and step.isdecimal() and Path(run).is_dir():
        return {**lora, "path": run, "step": int(step)}
    return lora


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
