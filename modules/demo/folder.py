"""The demo's base model as a diffusers folder: half precision, without the tokenizer.

The tokenizer is SD 1.5's own and lies in configs/models/sd15/tokenizer; `write_demo` puts a copy
beside the weights, so that the megabyte of vocabulary is in the project only once.
"""

import copy
import shutil
from pathlib import Path

from diffusers import AutoencoderKL

from modules.demo.painter import Denoiser
from onetrainer import ROOT

SD15 = ROOT / "configs" / "models" / "sd15"


def save(folder: Path, vae: AutoencoderKL, painter: Denoiser) -> None:
    """Writes the folder anew; a reader never sees a half-written one."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    shutil.copy(SD15 / "model_index.json", part)
    shutil.copytree(SD15 / "scheduler", part / "scheduler")
    copy.deepcopy(vae).half().save_pretrained(part / "vae")
    copy.deepcopy(painter.unet).half().save_pretrained(part / "unet")
    encoder = copy.deepcopy(painter.text_encoder).half()  # type: ignore[no-untyped-call]  # theirs
    # transformers 5 would leave the prefix out, and no other program could read the file.
    prefixed = {f"text_model.{key}": value for key, value in encoder.state_dict().items()}
    encoder.save_pretrained(part / "text_encoder", state_dict=prefixed)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
