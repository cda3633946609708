"""Trains the demo's base model from scratch.

    python -m modules.demo.train_base OUT [--seed 0] [--autoencoder-steps N] [--painter-steps N]

A tiny model of SD 1.5's architecture is trained on simple drawings and their captions, in three
stages: the autoencoder (about 15 minutes), the encoding of the drawings (2), then UNet and text
encoder together (40), on one core of a server CPU of 2025. OUT/base is the finished model, ready to
replace configs/demo/base; OUT/vae keeps the first stage, which is not repeated if it exists. The
same seed, number of threads (one) and library versions give the same weights.

The weights in configs/demo/base were not made in one go: the recipe was found while they were
trained (non-uniform timesteps, weights and low-frequency noise were added after 1600, 1850 and 2100
of 5200 steps), so this script gives a similar model, not the same bits. Measured: 195 of 216 images
right. `python -m tests.demo_check OUT/base` then measures how good it is.
"""

import argparse
import logging
import shutil
from pathlib import Path

import torch
from diffusers import AutoencoderKL

from modules import seeds
from modules.demo import autoencoder, denoiser
from modules.diffusion.ddpm import ddpm
from modules.families.components import Components, load_tokenizer
from modules.families.load import assemble
from onetrainer.demo.write import BASE
from onetrainer.families.stable_diffusion import SD15


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a folder for the model and its stages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--autoencoder-steps", type=int, default=autoencoder.STEPS)
    parser.add_argument("--painter-steps", type=int, default=denoiser.STEPS)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)  # sums in another order give other weights
    vae = load_or_train_autoencoder(
        options.out / "vae", steps=options.autoencoder_steps, seed=options.seed
    )
    train_denoiser(options.out / "base", vae, steps=options.painter_steps, seed=options.seed)


def load_or_train_autoencoder(
    folder: Path, *, steps: int, seed: int, polish_steps: int = autoencoder.POLISH_STEPS
) -> AutoencoderKL:
    """Load the autoencoder of this folder, or train a new one and save it there."""
    if not folder.exists():
        with torch.random.fork_rng():
            # The library samples a model's initial weights from the global generator.
            torch.manual_seed(seed)
            vae = autoencoder.build()
        vae.to(memory_format=torch.channels_last)  # a fifth faster on a CPU
        autoencoder.train(vae, steps=steps, seed=seed)
        autoencoder.polish(vae, steps=polish_steps, seed=seed)
        vae.to(memory_format=torch.contiguous_format).save_pretrained(folder)
    return AutoencoderKL.from_pretrained(folder, local_files_only=True).requires_grad_(False)


def train_denoiser(
    folder: Path, vae: AutoencoderKL, *, steps: int, seed: int, scenes: int = denoiser.SCENES
) -> None:
    """Train UNet and text encoder, and write the whole model: half precision, no tokenizer.

    The tokenizer is SD 1.5's; `write_demo` copies it next to the weights, so that the megabyte of
    vocabulary is in the repository only once.
    """
    with torch.random.fork_rng():
        # Both libraries sample initial weights from the global generator.
        torch.manual_seed(seeds.derive(seed, "demo painter"))
        networks = denoiser.Denoiser()
    family = assemble(
        SD15,
        Components(networks.unet, vae, {"text_encoder": networks.text_encoder}),
        tokenizer=load_tokenizer(SD15.configs),
        process=ddpm(),
    )
    trained = denoiser.train(networks, family, vae, steps=steps, seed=seed, count=scenes).half()
    shutil.copytree(BASE / "scheduler", folder / "scheduler")
    shutil.copy(BASE / "model_index.json", folder)
    vae.half().save_pretrained(folder / "vae")
    trained.unet.save_pretrained(folder / "unet")
    # transformers 5 would omit the prefix, and no other program could read the file.
    state = trained.text_encoder.state_dict()
    prefixed = {f"text_model.{key}": value for key, value in state.items()}
    trained.text_encoder.save_pretrained(folder / "text_encoder", state_dict=prefixed)


if __name__ == "__main__":
    main()
