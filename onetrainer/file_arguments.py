"""The options of the commands for files: sample, convert, show. Only argparse is loaded here."""

import argparse
from pathlib import Path

FAMILIES = "sd15, sd15-inpainting, sd2, sd2-inpainting, sdxl, sdxl-inpainting"
SAMPLERS = (
    "ddim, euler, euler_a, dpmpp_2m, dpmpp_2m_karras, dpmpp_2m_sde, dpmpp_2m_sde_karras, unipc, lcm"
)


def add_sample(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`onetrainer sample`."""
    sample = commands.add_parser("sample", help="draw pictures with a model, LoRAs and embeddings")
    sample.add_argument("base", help="a folder, a file, or the name of a model on the hub")
    group = sample.add_argument_group("what the pictures show")
    add = group.add_argument
    _many(group, "--prompt", "TEXT", "what a picture shows")
    add("--prompts", type=Path, metavar="FILE", help="a prompt on each line; # begins a comment")
    add("--negative", metavar="TEXT", help="what no picture shows")
    _many(group, "--seed", "N", "the number that noise comes from")
    add("--seeds", metavar="N", help="so many seeds, counted on from the first")
    add("--width", metavar="PX", help="a multiple of 8; else what the model was made for")
    add("--height", metavar="PX", help="as the width")
    group = sample.add_argument_group("what is on the model")
    add = group.add_argument
    _many(group, "--lora", "FILE[:STRENGTH]", "a LoRA, as strong as trained or so many times")
    _many(group, "--embedding", "FILE", "an embedding, whose word is the file's name")
    add("--vae", metavar="FILE", help="a VAE in place of the model's own")
    add("--clip-skip", metavar="N", help="which of the text encoder's layers, from the end")
    _add_kind(group)
    add("--offline", action="store_true", help="never use the network")
    add = sample.add_argument_group("how they are drawn").add_argument
    add("--sampler", metavar="NAME", help=SAMPLERS)
    add("--steps", metavar="N", help="denoising steps")
    add("--guidance", metavar="X", help="how strongly pictures follow their prompt; 1: without")
    add("--guidance-rescale", metavar="X", help="0 to 1; 0.7 for models with zero terminal SNR")
    add("--batch", metavar="N", help="pictures at once")
    add("--precision", metavar="NAME", help="fp32, bf16 or fp16")
    add("--device", metavar="NAME", help="auto, cuda or cpu")
    add("--grid", action="store_true", help="also all of them as one, prompts by seeds")
    add("--out", metavar="FOLDER", help="where they go; nothing there is overwritten")


def add_convert(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`onetrainer convert`."""
    convert = commands.add_parser("convert", help="write a model, LoRA or embedding anew")
    add = convert.add_argument
    add("source", metavar="IN", help="a file or a folder")
    add("target", metavar="OUT", help="the file or folder to write")
    add(
        "--to",
        metavar="FORMAT",
        help="models: diffusers, original; LoRAs: kohya, diffusers, comfyui",
    )
    add("--precision", metavar="NAME", help="keep, fp32, fp16 or bf16")
    _add_kind(convert)
    add("--vae", metavar="FILE", help="a VAE in place of the model's own")
    add("--ema", action="store_true", help="take the averaged weights, if there are any")
    add("--name", metavar="NAME", help="an embedding's name")
    add("--overwrite", action="store_true", help="replace what is there")


def add_show(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`onetrainer show`."""
    show = commands.add_parser("show", help="tell what a model file is")
    show.add_argument("file", type=Path, help="a file or a folder")
    show.add_argument("--json", action="store_true", help="print it as JSON")


def _add_kind(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add("--family", metavar="NAME", help=f"{FAMILIES}; else what the model says")
    add("--prediction", metavar="NAME", help="epsilon or v_prediction; else what the model says")
    add("--zero-terminal-snr", metavar="WORD", help="on or off; else what the model says")


def _many(group: argparse._ActionsContainer, name: str, metavar: str, words: str) -> None:
    group.add_argument(
        name, action="append", default=[], metavar=metavar, help=f"{words}; may be given again"
    )
