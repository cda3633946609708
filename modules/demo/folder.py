"""The demo's base model as a diffusers folder: half precision, without the tokenizer.

The tokenizer is SD 1.5's, in configs/models/sd15/tokenizer; `write_demo` copies it next to the
weights, so that the megabyte of vocabulary is in the repository only once.
"""

import copy
import shutil
from pathlib import Path

from diffusers import AutoencoderKL

from modules.demo.denoiser import Denoiser
from onetrainer import ROOT

SD15 = ROOT / "configs" / "models" / "sd15"


def save(folder: Path, vae: AutoencoderKL, denoiser: Denoiser) -> None:
    """Write the folder again; a reader never sees a half-written one."""
    temporary = folder.with_name(folder.name + ".part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    shutil.copy(SD15 / "model_index.json", temporary)
    shutil.copytree(SD15 / "scheduler", temporary / "scheduler")
    copy.deepcopy(vae).half().save_pretrained(temporary / "vae")
    copy.deepcopy(denoiser.unet).half().save_pretrained(temporary / "unet")
    encoder = copy.deepcopy(denoiser.text_encoder).half()  # type: ignore[no-untyped-call]  # theirs
    # transformers 5 would omit the prefix, and no other program could read the file.
    prefixed = {f"text_model.{key}": value for key, value in encoder.state_dict().items()}
    encoder.save_pretrained(temporary / "text_encoder", state_dict=prefixed)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
