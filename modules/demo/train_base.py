"""Trains the demo's base model from nothing.

    python -m modules.demo.train_base OUT [--seed 0] [--autoencoder-steps N] [--painter-steps N]

A tiny model of SD 1.5's architecture learns simple drawn pictures and their captions, in three
stages: the autoencoder (about 15 minutes), the encoding of the drawings (2), then UNet and text
encoder together (40), on one core of a server CPU of 2025. OUT/base is the finished model, ready
to replace configs/demo/base; OUT/vae keeps the first stage, which is not repeated when it is there.
The same seed, number of threads (one) and library versions give the same weights.

The weights in configs/demo/base were not made in one go: the recipe was found while they trained
(uneven timesteps, weights and slow noise came in after 1600, 1850 and 2100 of 5200 steps), so
this script gives a model of the same kind, not the same bits. Measured: 195 of 216 pictures right.
`python -m modules.demo.check OUT/base` then measures how good it is.
"""

import argparse
import logging
from pathlib import Path

import torch
from diffusers import AutoencoderKL

from modules.demo import autoencoder, painter
from modules.demo.folder import save
from modules.demo.painter import Denoiser
from modules.diffusion.schedule import scaled_linear
from modules.families.components import Components, load_tokenizer
from modules.families.load import assemble
from modules.families.sd15 import SD15


def main() -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a folder for the model and its stages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--autoencoder-steps", type=int, default=autoencoder.STEPS)
    parser.add_argument("--painter-steps", type=int, default=painter.STEPS)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)  # sums in another order give other weights
    vae = trained_autoencoder(
        options.out / "vae", steps=options.autoencoder_steps, seed=options.seed
    )
    train_painter(options.out / "base", vae, steps=options.painter_steps, seed=options.seed)


def trained_autoencoder(
    folder: Path, *, steps: int, seed: int, polish_steps: int = autoencoder.POLISH_STEPS
) -> AutoencoderKL:
    """The autoencoder out of that folder, or a new one that is left there."""
    if not folder.exists():
        with torch.random.fork_rng():
            # The library draws a model's initial weights from the global generator.
            torch.manual_seed(seed)
            vae = autoencoder.build()
        autoencoder.train(vae, steps=steps, seed=seed)
        autoencoder.polish(vae, steps=polish_steps, seed=seed)
        vae.save_pretrained(folder)
    return AutoencoderKL.from_pretrained(folder, local_files_only=True).requires_grad_(False)


def train_painter(
    folder: Path, vae: AutoencoderKL, *, steps: int, seed: int, scenes: int = painter.SCENES
) -> None:
    """Trains UNet and text encoder; the folder is a whole model from the first preview on."""
    lessons = painter.prepare(vae, seed=seed, count=scenes)
    networks = painter.untrained(seed)
    family = assemble(
        SD15,
        Components(networks.unet, vae, {"text_encoder": networks.text_encoder}),
        name="sd15",
        tokenizer=load_tokenizer(SD15.configs),
        schedule=scaled_linear(),
    )

    def keep(trained: Denoiser) -> None:
        save(folder, vae, trained)

    keep(painter.train(networks, family, lessons, steps=steps, seed=seed, preview=keep))


if __name__ == "__main__":
    main()
