"""A bare loop's first step: `python -m tests.benchmarks.bare_start PROJECT`.

What a person would write with diffusers and transformers alone, on a project of `tests.runs`: the
same libraries, networks and files, a LoRA of two linear layers, encoded captions and latents from
one file, and one step. Prints when the step is done.
"""

import sys
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from safetensors.torch import load_file
from transformers import CLIPTextModel, CLIPTokenizer

from tests.benchmarks.bare_lora import attach_lora

ENCODED = "encoded.safetensors"
RANK, BATCH = 4, 2


def main(project: Path) -> None:
    """Load everything, and make a step."""
    torch.set_num_threads(1)
    base = project / "base"
    unet = UNet2DConditionModel.from_pretrained(base, subfolder="unet")
    AutoencoderKL.from_pretrained(base, subfolder="vae")
    CLIPTextModel.from_pretrained(base, subfolder="text_encoder")
    CLIPTokenizer.from_pretrained(base, subfolder="tokenizer")
    process = DDPMScheduler.from_pretrained(base, subfolder="scheduler")
    unet.requires_grad_(False)
    attach_lora(unet, RANK)
    weights = [weight for weight in unet.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, fused=True)
    encoded = load_file(project / ENCODED)
    latents, hidden = encoded["latents"][:BATCH], encoded["hidden"][:BATCH]
    noise, timesteps = torch.randn_like(latents), torch.randint(0, 1000, (BATCH,))
    noisy = process.add_noise(latents, noise, timesteps)
    predicted = unet(noisy, timesteps, hidden).sample
    torch.nn.functional.mse_loss(predicted, noise).backward()
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
