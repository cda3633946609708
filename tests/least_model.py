"""Configs of a model with the fewest blocks: what takes time in a forecast is each operator."""

import json
from pathlib import Path

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel

from tests import tiny

NETWORKS = {"unet": UNet2DConditionModel, "vae": AutoencoderKL}


def write_least_weights(base: Path) -> None:
    """Puts untrained networks with the fewest blocks in place of a folder's UNet and VAE."""
    _change_configs(base)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for component, network in NETWORKS.items():
            made = network.from_config(network.load_config(base / component))
            made.save_pretrained(base / component)


def write_least_configs(folder: Path, *, is_wide: bool = False) -> str:
    """Writes an SD 1.5 with two levels of one layer; wide: with as many channels as real ones."""
    tiny.write_configs(folder)
    _change_configs(folder, is_wide=is_wide)
    return str(folder)


def _change_configs(folder: Path, *, is_wide: bool = False) -> None:
    path = folder / "unet" / "config.json"
    unet = json.loads(path.read_text())
    is_xl = unet["down_block_types"][0] == "DownBlock2D"
    plain, attending = ("DownBlock2D", "UpBlock2D"), ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D")
    levels = (plain, attending) if is_xl else (attending, plain)
    # What differs by level, in SD 2 and SDXL, is cut to as many as there are.
    unet |= {name: value[:2] for name, value in unet.items() if isinstance(value, list)}
    unet |= {
        "layers_per_block": 1,
        "block_out_channels": [8, 16],
        "down_block_types": [down for down, _ in levels],
        "up_block_types": [up for _, up in reversed(levels)],
    }
    if is_wide:
        unet |= {"block_out_channels": [320, 640], "norm_num_groups": 32, "attention_head_dim": 8}
    path.write_text(json.dumps(unet))
    path = folder / "vae" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"layers_per_block": 1}))
