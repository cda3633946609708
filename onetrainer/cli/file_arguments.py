"""The options of the commands for files: sample, convert, show. Only argparse is loaded here."""

import argparse
from pathlib import Path

FAMILIES = "sd15, sd15-inpainting, sd2, sd2-inpainting, sdxl, sdxl-inpainting"
SAMPLERS = (
    "ddim, euler, euler_a, dpmpp_2m, dpmpp_2m_karras, dpmpp_2m_sde, dpmpp_2m_sde_karras, unipc, lcm"
)


# What is used where an option is left out. The settings have the same, which load slowly.
STEPS, GUIDANCE, SAMPLER, SEED, OUT = 20, 7, "ddim", 42, "samples"


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, words: str
) -> argparse.ArgumentParser:
    """A command whose own help begins with what the list of all commands says of it."""
    return commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")


def add_cache(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """`onetrainer cache`."""
    cache = add_command(commands, "cache", "tell what is kept of encoded pictures, or prune it")
    add = cache.add_argument
    add("--prune", action="store_true", help="remove what is of no use, and whatever follows")
    add("--limit", metavar="GB", help="what was not used for longest, down to this; with --prune")
    add("--older-than", metavar="DAYS", help="what was not used for so long; with --prune")
    add("--encode", action="store_true", help="encode the pictures of a config, without training")
    add("--json", action="store_true", help="print the numbers as JSON")
    return cache


def add_sample(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`onetrainer sample`."""
    sample = add_command(commands, "sample", "draw pictures with a model, LoRAs and embeddings")
    sample.add_argument("base", help="a folder, a file, or the name of a model on the hub")
    group = sample.add_argument_group("what the pictures show")
    add = group.add_argument
    _many(group, "--prompt", "TEXT", "what a picture shows")
    add("--prompts", type=Path, metavar="FILE", help="a prompt on each line; # begins a comment")
    add("--negative", metavar="TEXT", help="what no picture shows")
    _many(group, "--seed", "N", f"the number that noise comes from, {SEED} if none is given")
    add("--seeds", metavar="N", help="so many seeds, counted on from --seed")
    add("--width", metavar="PX", help="a multiple of 8; by default what the model was made for")
    add("--height", metavar="PX", help="likewise")
    group = sample.add_argument_group("what is on the model")
    add = group.add_argument
    _many(group, "--lora", "FILE[:STRENGTH]", "a LoRA, as strong as trained or so many times")
    _many(group, "--embedding", "FILE", "an embedding; its word is the file's name, or that inside")
    add("--vae", metavar="FILE", help="a VAE in place of the model's own")
    add(
        "--clip-skip",
        metavar="N",
        help="which of the text encoder's layers is read, from the end: 1 the last, 2 the one"
        " before, up to 12; default 0, what the family was made with (SD 1.5: 1; SD 2, SDXL: 2)",
    )
    _add_kind(group)
    add("--offline", action="store_true", help="never use the network")
    add = sample.add_argument_group("how they are drawn").add_argument
    add(
        "--sampler",
        metavar="NAME",
        help=f'{SAMPLERS}, or as people write them: "DPM++ 2M Karras"; default {SAMPLER}',
    )
    add("--steps", metavar="N", help=f"denoising steps; default {STEPS}")
    add(
        "--guidance",
        metavar="X",
        help=f"how strongly pictures follow their prompt; 1: without; default {GUIDANCE}",
    )
    add(
        "--guidance-rescale",
        metavar="X",
        help="0 to 1; 0.7 for models with zero terminal SNR; default 0",
    )
    add("--batch", metavar="N", help="pictures at once; default 1")
    add(
        "--precision",
        metavar="NAME",
        help="fp32, bf16 or fp16; default bf16 on a graphics card, fp32 on the processor",
    )
    add("--device", metavar="NAME", help="auto, cuda or cpu; default auto")
    add("--grid", action="store_true", help="also all of them as one, prompts by seeds")
    add(
        "--out",
        metavar="FOLDER",
        help=f"where they go; nothing there is overwritten; default {OUT}",
    )


def add_convert(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`onetrainer convert`."""
    convert = add_command(commands, "convert", "write a model, LoRA or embedding anew")
    add = convert.add_argument
    add("source", metavar="IN", help="a file or a folder")
    add("target", metavar="OUT", help="the file or folder to write")
    add(
        "--to",
        metavar="FORMAT",
        help="models: diffusers, original, by default what OUT's name says; LoRAs: kohya (the"
        " default), diffusers, comfyui",
    )
    add("--precision", metavar="NAME", help="keep, fp32, fp16 or bf16; default keep")
    _add_kind(convert)
    add("--vae", metavar="FILE", help="a VAE in place of the model's own")
    add("--ema", action="store_true", help="take the averaged weights, if there are any")
    add("--name", metavar="NAME", help="an embedding's name, or the one to take out of a bundle")
    _many(convert, "--bundle", "FILE", "an embedding that comes into the LoRA's file")
    add("--overwrite", action="store_true", help="replace what is there")


def add_show(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`onetrainer show`."""
    show = add_command(commands, "show", "tell what a model file, a run or a picture is")
    show.add_argument(
        "file", type=Path, nargs="+", metavar="FILE", help="files or folders, one after the other"
    )
    show.add_argument("--all", action="store_true", help="all that the file says about itself")
    show.add_argument("--json", action="store_true", help="print everything as JSON")


def _add_kind(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add("--family", metavar="NAME", help=f"{FAMILIES}; else what the model says")
    add("--prediction", metavar="NAME", help="epsilon or v_prediction; else what the model says")
    add("--zero-terminal-snr", metavar="WORD", help="on or off; else what the model says")


def _many(group: argparse._ActionsContainer, name: str, metavar: str, words: str) -> None:
    group.add_argument(
        name, action="append", default=[], metavar=metavar, help=f"{words}; may be given again"
    )
