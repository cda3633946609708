"""Stable Diffusion a thousand times smaller, with the classes and the blocks of the real one.

As objects, as a diffusers folder and as a single file in the original layout; besides that small
captioned pictures, and files that must be refused. Everything follows from the seed.
"""

import json
import math
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel

from modules.diffusion.schedule import scaled_linear
from modules.families.components import Parts, load_tokenizer
from modules.families.prompts import ClipPrompts
from modules.families.sd15 import CONFIGS
from modules.families.stable_diffusion import StableDiffusion
from modules.formats.original_layout import to_original

CPU = torch.device("cpu")
WIDTH = 32  # of the text encoder's output

UNET = {
    **json.loads((CONFIGS / "unet" / "config.json").read_text()),
    "block_out_channels": [8, 12, 16, 16],
    "norm_num_groups": 4,
    "attention_head_dim": 2,
    "cross_attention_dim": WIDTH,
    "sample_size": 8,
}
VAE = {
    **json.loads((CONFIGS / "vae" / "config.json").read_text()),
    "block_out_channels": [8, 12, 16, 16],
    "norm_num_groups": 4,
    "sample_size": 64,
}
TEXT_ENCODER = {
    **json.loads((CONFIGS / "text_encoder" / "config.json").read_text()),
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "projection_dim": WIDTH,
}


def parts(seed: int = 0) -> Parts:
    """The networks, untrained, float32 on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = Parts(
            UNet2DConditionModel.from_config(UNET),
            AutoencoderKL.from_config(VAE),
            CLIPTextModel(CLIPTextConfig(**TEXT_ENCODER)),
        )
        _make_decoder_respond(made.vae)
    return made


def family(
    seed: int = 0, *, compute_dtype: torch.dtype = torch.float32, device: torch.device = CPU
) -> StableDiffusion:
    """A loaded tiny SD 1.5, frozen, without any file written."""
    made = parts(seed)
    for part in (made.unet, made.text_encoder):
        nn.Module.to(part, compute_dtype)  # diffusers' own `to` warns about nothing
    for part in (made.unet, made.vae, made.text_encoder):
        part.requires_grad_(False).eval().to(device)
    return StableDiffusion(
        unet=made.unet,
        vae=made.vae,
        prompts=ClipPrompts(load_tokenizer(CONFIGS), made.text_encoder),
        schedule=scaled_linear().to(device),
        prediction="epsilon",
    )


def write_configs(folder: Path) -> Path:
    """The folder with configs and tokenizer that `write_single_file`'s files are opened with."""
    shutil.copytree(CONFIGS, folder)
    for name, config in {"unet": UNET, "vae": VAE, "text_encoder": TEXT_ENCODER}.items():
        (folder / name / "config.json").write_text(json.dumps(config))
    return folder


def write_folder(
    folder: Path, made: Parts | None = None, *, dtype: torch.dtype = torch.float32
) -> Path:
    """A diffusers folder, as people have them: text encoder names with `text_model.`."""
    made = made or parts()
    write_configs(folder)
    for name, part in _named(made).items():
        stem = "model" if name == "text_encoder" else "diffusion_pytorch_model"
        prefix = "text_model." if name == "text_encoder" else ""
        state = {prefix + key.removeprefix(prefix): t for key, t in part.state_dict().items()}
        _save(state, folder / name / f"{stem}.safetensors", dtype)
    return folder


def write_single_file(
    path: Path, made: Parts | None = None, *, dtype: torch.dtype = torch.float32
) -> Path:
    """A file in the original layout, with the position ids that old files have."""
    made = made or parts()
    state = {"cond_stage_model.transformer.text_model.embeddings.position_ids": torch.arange(77)}
    for name, part in _named(made).items():
        state |= to_original(name, part.state_dict())
    _save(state, path, dtype)
    return path


def write_header(path: Path, shapes: dict[str, tuple[int, ...]]) -> Path:
    """A safetensors file of zeros with these float16 tensors."""
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    return path


def write_sdxl(path: Path) -> Path:
    """A file that is recognizably SDXL."""
    return write_header(
        path,
        {
            "model.diffusion_model.input_blocks.0.0.weight": (8, 4, 3, 3),
            "model.diffusion_model.label_emb.0.0.weight": (8, 8),
            "conditioner.embedders.0.transformer.text_model.final_layer_norm.weight": (8,),
            "conditioner.embedders.1.model.ln_final.weight": (8,),
            "first_stage_model.quant_conv.weight": (8, 8, 1, 1),
        },
    )


def write_pictures(
    folder: Path, captions: Iterable[str] = ("a red square", "a blue circle"), *, side: int = 64
) -> Path:
    """One small PNG with a caption file for each caption."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, caption in enumerate(captions):
        shade = (40 + 67 * index % 200, 200 - 53 * index % 180, 90 + 31 * index % 150)
        picture = Image.radial_gradient("L").resize((side, side)).convert("RGB")
        Image.blend(picture, Image.new("RGB", (side, side), shade), 0.6).save(
            folder / f"picture-{index}.png"
        )
        (folder / f"picture-{index}.txt").write_text(caption + "\n", encoding="utf-8")
    return folder


def _named(made: Parts) -> dict[str, nn.Module]:
    return {"unet": made.unet, "vae": made.vae, "text_encoder": made.text_encoder}


def _save(state: dict[str, Tensor], path: Path, dtype: torch.dtype) -> None:
    floats = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor
              for name, tensor in state.items()}  # fmt: skip
    save_file({name: tensor.contiguous() for name, tensor in floats.items()}, path)


def _make_decoder_respond(vae: AutoencoderKL) -> None:
    """Without this an untrained decoder shows the same gray whatever the latent."""
    for module in (*vae.decoder.modules(), vae.post_quant_conv):
        if isinstance(module, nn.Conv2d):
            nn.init.orthogonal_(module.weight)
            nn.init.zeros_(module.bias)
