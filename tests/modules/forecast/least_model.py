"""Configs of a model with the fewest blocks: what takes time in a forecast is each operator."""

import json
from pathlib import Path

from tests import tiny


def write_least_configs(folder: Path, *, is_wide: bool = False) -> str:
    """Writes an SD 1.5 with two levels of one layer; wide: with as many channels as real ones."""
    unet = {
        "layers_per_block": 1,
        "block_out_channels": [8, 16],
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    }
    if is_wide:
        unet |= {"block_out_channels": [320, 640], "norm_num_groups": 32, "attention_head_dim": 8}
    tiny.write_configs(folder)
    for component, changes in (("unet", unet), ("vae", {"layers_per_block": 1})):
        path = folder / component / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return str(folder)
