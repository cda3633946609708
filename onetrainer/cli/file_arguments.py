"""Options of the commands for files: sample, convert, show. Imports only argparse."""

import argparse
from pathlib import Path

FAMILIES = "sd15, sd15-inpainting, sd2, sd2-inpainting, sdxl, sdxl-inpainting"
SAMPLERS = (
    "ddim, euler, euler_a, dpmpp_2m, dpmpp_2m_karras, dpmpp_2m_sde, dpmpp_2m_sde_karras, unipc, lcm"
)


# Defaults, the same as those of the settings, which load slowly.
STEPS, GUIDANCE, SAMPLER, SEED, OUT = 20, 7, "ddim", 42, "samples"


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    """Add a command whose help starts with its line in the list of commands."""
    return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")


def add_cache(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Add `onetrainer cache`."""
    cache = add_command(
        commands, "cache", "show what the cache of encoded images holds, or prune it"
    )
    add = cache.add_argument
    add(
        "--prune",
        action="store_true",
        help="remove unusable entries, and those of the following limits",
    )
    add(
        "--limit",
        metavar="GB",
        help="with --prune: also the least recently used entries above this size",
    )
    add("--older-than", metavar="DAYS", help="with --prune: also entries not used for this long")
    add("--encode", action="store_true", help="encode the images of a config, without training")
    add("--json", action="store_true", help="print the numbers as JSON")
    return cache


def add_sample(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `onetrainer sample`."""
    sample = add_command(commands, "sample", "generate images with a model, LoRAs and embeddings")
    sample.add_argument(
        "base", help="a folder, a file, or the name of a model on the Hugging Face Hub"
    )
    group = sample.add_argument_group("content")
    add = group.add_argument
    _add_repeatable(group, "--prompt", "TEXT", "what an image should show")
    add("--prompts", type=Path, metavar="FILE", help="one prompt per line; # starts a comment")
    add("--negative", metavar="TEXT", help="what no image should show")
    _add_repeatable(group, "--seed", "N", f"the seed of the noise (default: {SEED})")
    add("--seeds", metavar="N", help="this many seeds, counting up from --seed")
    add(
        "--width",
        metavar="PX",
        help="a multiple of 8 (default: the side that the model was trained at)",
    )
    add("--height", metavar="PX", help="the same for the height")
    group = sample.add_argument_group("additions to the model")
    add = group.add_argument
    _add_repeatable(group, "--lora", "FILE[:STRENGTH]", "a LoRA and its strength (default: 1)")
    _add_repeatable(
        group,
        "--embedding",
        "FILE",
        "an embedding; its token is the file's name, or the name inside",
    )
    add("--vae", metavar="FILE", help="a VAE that replaces the model's own")
    add(
        "--clip-skip",
        metavar="N",
        help="the text encoder layer to use, counted from the end: 1 for the last, up to 12"
        " (default: 0, the family's usual layer; SD 1.5: 1; SD 2, SDXL: 2)",
    )
    _add_model_options(group)
    add("--offline", action="store_true", help="never use the network")
    _add_sampling_options(sample)


def _add_sampling_options(sample: argparse.ArgumentParser) -> None:
    add = sample.add_argument_group("sampling").add_argument
    add(
        "--sampler",
        metavar="NAME",
        help=f'{SAMPLERS}, or the usual name: "DPM++ 2M Karras" (default: {SAMPLER})',
    )
    add("--steps", metavar="N", help=f"denoising steps (default: {STEPS})")
    add(
        "--guidance",
        metavar="X",
        help=f"how strongly images follow their prompt; 1 for no guidance (default: {GUIDANCE})",
    )
    add(
        "--guidance-rescale",
        metavar="X",
        help="0 to 1; 0.7 for models with zero terminal SNR (default: 0)",
    )
    add("--batch", metavar="N", help="images at once (default: 1)")
    add(
        "--precision",
        metavar="NAME",
        help="fp32, bf16 or fp16 (default: bf16 on a GPU, fp32 on the CPU)",
    )
    add("--device", metavar="NAME", help="auto, cuda or cpu (default: auto)")
    add("--grid", action="store_true", help="also write a grid of all images, prompts by seeds")
    add(
        "--out",
        metavar="FOLDER",
        help=f"the output folder; nothing in it is overwritten (default: {OUT})",
    )


def add_convert(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `onetrainer convert`."""
    convert = add_command(commands, "convert", "convert a model, LoRA or embedding")
    add = convert.add_argument
    add("source", metavar="IN", help="a file or a folder")
    add("target", metavar="OUT", help="the file or folder to write")
    add(
        "--to",
        metavar="FORMAT",
        help="models: diffusers or original (default: inferred from OUT's name); LoRAs: kohya"
        " (default), diffusers or comfyui",
    )
    add("--precision", metavar="NAME", help="keep, fp32, fp16 or bf16 (default: keep)")
    _add_model_options(convert)
    add("--vae", metavar="FILE", help="a VAE that replaces the model's own")
    add("--ema", action="store_true", help="use the EMA weights if the file has them")
    add(
        "--name",
        metavar="NAME",
        help="an embedding's new name, or the one to extract from a bundle",
    )
    _add_repeatable(convert, "--bundle", "FILE", "an embedding to bundle into the LoRA file")
    add("--overwrite", action="store_true", help="replace an existing OUT")


def add_show(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `onetrainer show`."""
    show = add_command(commands, "show", "describe a model file, a run or an image")
    show.add_argument(
        "file", type=Path, nargs="+", metavar="FILE", help="one or more files or folders"
    )
    show.add_argument("--all", action="store_true", help="show all metadata")
    show.add_argument("--json", action="store_true", help="print everything as JSON")


def _add_model_options(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add("--family", metavar="NAME", help=f"{FAMILIES} (default: detected)")
    add("--prediction", metavar="NAME", help="epsilon or v_prediction (default: detected)")
    add("--zero-terminal-snr", metavar="WORD", help="on or off (default: detected)")


def _add_repeatable(group: argparse._ActionsContainer, name: str, metavar: str, text: str) -> None:
    group.add_argument(
        name, action="append", default=[], metavar=metavar, help=f"{text}; can be repeated"
    )
